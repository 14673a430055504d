"""Every name of Flower that fedlore uses: the only file that imports flwr.

Each release of flwr moves something; what moved is mended here, and a contract test names it all.
"""

from typing import Any

from flwr.app import ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.app.message import remove_content_from_message
from flwr.app.message.array import Array
from flwr.common.serde import fab_to_proto, message_to_proto, run_from_proto
from flwr.proto import control_pb2, fleet_pb2, heartbeat_pb2, node_pb2, runtime_pb2
from flwr.serverapp import Grid
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable import inflatable_object as objects
from flwr.supercore.inflatable import inflatable_protobuf_utils as transfer
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    pull_and_inflate_object_from_tree,
    push_objects,
)
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor, SuperExecAuthHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supercore.retry import RetryInvoker, exponential
from flwr.supercore.run import RunNotRunningException
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor


def http_grid() -> Any:
    """Flower's grid over HTTP; loaded late, since it brings what a site never needs."""
    from flwr.superlink.grid import HttpGrid

    return HttpGrid


__all__ = [
    "Array",
    "ArrayRecord",
    "ConfigRecord",
    "ControlHttpClient",
    "Error",
    "Fab",
    "FleetHttpClient",
    "Grid",
    "Message",
    "NodeAuthHttpInterceptor",
    "ObjectPullError",
    "ObjectPushError",
    "RecordDict",
    "RetryInvoker",
    "RunNotRunningException",
    "RuntimeHttpClient",
    "RuntimeVersionHttpInterceptor",
    "SuperExecAuthHttpInterceptor",
    "TaskIdentity",
    "TaskType",
    "control_pb2",
    "exponential",
    "fab_to_proto",
    "fleet_pb2",
    "heartbeat_pb2",
    "http_grid",
    "message_to_proto",
    "node_pb2",
    "objects",
    "public_key_to_bytes",
    "pull_and_inflate_object_from_tree",
    "push_objects",
    "remove_content_from_message",
    "run_from_proto",
    "runtime_pb2",
    "transfer",
]
