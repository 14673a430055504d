"""Every name of Flower that fedlore uses: the only file that imports flwr.

Each release of flwr moves something; what moved is mended here, and a contract test names it all.
"""

# ruff: noqa: F401

from collections.abc import Callable
from types import ModuleType

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.app.message.array import Array
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.common.serde import fab_to_proto, message_from_proto, message_to_proto
from flwr.proto import control_pb2, fleet_pb2, heartbeat_pb2, message_pb2, node_pb2, runtime_pb2
from flwr.supercore.constant import (
    FLEET_HTTP_PUBLIC_KEY_HEADER,
    FLEET_HTTP_SIGNATURE_HEADER,
    TaskType,
)
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable import inflatable_object as objects
from flwr.supercore.inflatable import inflatable_protobuf_utils as transfer
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    inflate_object_from_contents,
    pull_and_inflate_object_from_tree,
    push_objects,
)
from flwr.supercore.primitives.asymmetric import (
    bytes_to_public_key,
    public_key_to_bytes,
    sign_message,
    verify_signature,
)
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_client import FleetHttpClient


def load_interceptors() -> ModuleType:
    """The coordinator's; a site does without them, since they load a web server and 18 MB."""
    import flwr.supercore.interceptors as found

    return found


def load_superlink() -> Callable[[], None]:
    """Flower's server, which a site does without too."""
    from flwr.superlink.cli import flower_superlink as found

    return found
