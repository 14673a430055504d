"""A site's way in to Flower's SuperLink: a SuperNode of our own.

Flower's executes the code of whatever run is submitted, in a new process for each message. This
one never fetches that code: it answers in this process with the fedlore that is installed.
"""

import base64
import binascii
import datetime
import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec

from ...errors import FedloreError
from ..remote import AHEAD, BEAT, BEHIND, LinkLost, NotTrusted, ShutOut, plain_text
from .messages import pack_parcel, read_head
from .names import (
    FLEET_HTTP_PUBLIC_KEY_HEADER,
    FLEET_HTTP_SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    FleetHttpClient,
    Message,
    bytes_to_public_key,
    fleet_pb2,
    heartbeat_pb2,
    node_pb2,
    objects,
    public_key_to_bytes,
    pull_and_inflate_object_from_tree,
    push_objects,
    sign_message,
    transfer,
    verify_signature,
)
from .transport import Answerer, Link, link, respond

LARGEST_TASK = 1 << 30  # bytes of one task
UNFINISHED = 10.0  # seconds after which a task that is not all there is left to be asked again

_log = logging.getLogger("fedlore.site")


def door(
    link: Link, site: str, key: ec.EllipticCurvePrivateKey, answerer: Answerer, *, before: int = 0
) -> "FlowerDoor":
    """A site's way in; `before` is its number from last time, if it could not say goodbye."""
    signing = Signing(key, secrets.token_hex(8))
    return FlowerDoor(link.open(FleetHttpClient, signing), site, key, answerer, before)


@dataclass
class FlowerDoor:
    """One site's door."""

    fleet: FleetHttpClient
    site: str
    key: ec.EllipticCurvePrivateKey
    answerer: Answerer
    node: int = 0

    def enter(self) -> int:
        public = public_key_to_bytes(self.key.public_key())
        ask = fleet_pb2.ActivateNodeRequest(public_key=public, heartbeat_interval=BEAT)
        with link():
            if self.node:  # a site that was killed still counts as here, until its time is up
                with suppress(httpx.HTTPStatusError):
                    self.fleet.DeactivateNode(fleet_pb2.DeactivateNodeRequest(node_id=self.node))
            try:
                self.node = self.fleet.ActivateNode(ask).node_id
            except httpx.HTTPStatusError as error:
                if error.response.status_code in (429, *range(500, 600)):
                    raise  # not there, which is not the same as not letting in
                raise ShutOut(_explain(self.site, error)) from None
        return self.node

    def beat(self) -> None:
        node = node_pb2.Node(node_id=self.node)
        self.fleet.SendNodeHeartbeat(
            heartbeat_pb2.SendNodeHeartbeatRequest(node=node, heartbeat_interval=BEAT)
        )

    def turn(self) -> bool:
        node = node_pb2.Node(node_id=self.node)
        with link():
            found = self.fleet.PullMessages(fleet_pb2.PullMessagesRequest(node=node))
        if not found.messages_list:
            return False
        head, tree = found.messages_list[0], found.message_object_trees[0]
        run = head.metadata.run_id
        try:
            with link():
                message = read_head(head, tree) or self._pull(tree, node, run)
        except (LinkLost, NotTrusted):
            raise
        except Exception as error:  # whatever was put together there: who asks hears nothing
            _log.error("a task was left that cannot be read: %r", error)
            return True
        began = time.monotonic()
        reply = respond(message, self.site, self.answerer)
        parcel = pack_parcel(reply)
        with link(), objects.no_object_id_recompute():
            opened = self.fleet.PushMessages(
                fleet_pb2.PushMessagesRequest(
                    node=node,
                    messages_list=[parcel.head],
                    message_object_trees=[parcel.tree],
                    clientapp_runtime_list=[time.monotonic() - began],
                )
            )
            if parcel.objects:
                push_objects(
                    dict(parcel.objects),
                    transfer.make_push_object_fn_protobuf(
                        self.fleet.PushObject, node, run, opened.session_id
                    ),
                    object_ids_to_push=set(opened.objects_to_push),
                )
        return True

    def _pull(self, tree: Any, node: Any, run: int) -> Message:
        """A task that comes in objects."""
        message: Message = pull_and_inflate_object_from_tree(
            tree,
            _bounded(transfer.make_pull_object_fn_protobuf(self.fleet.PullObject, node, run)),
            transfer.make_confirm_message_received_fn_protobuf(
                self.fleet.ConfirmMessageReceived, node, run
            ),
            return_type=Message,
            initial_backoff=0.1,
            max_time=UNFINISHED,
        )
        message.metadata.__dict__["_message_id"] = tree.object_id  # it is not part of the message
        return message

    def leave(self) -> None:
        with link():
            self.fleet.DeactivateNode(fleet_pb2.DeactivateNodeRequest(node_id=self.node))
        self.fleet.close()


class TooLarge(FedloreError):
    """A task that would take more memory than any model needs."""

    kind = "too-large"


def _bounded(pull: Callable[[str], bytes]) -> Callable[[str], bytes]:
    """The same, until so many bytes have come."""
    total = [0]

    def pulled(name: str) -> bytes:
        data = pull(name)
        total[0] += len(data)
        if total[0] > LARGEST_TASK:
            raise TooLarge(f"more than {LARGEST_TASK} bytes")
        return data

    return pulled


def _explain(site: str, error: httpx.HTTPStatusError) -> str:
    if error.response.status_code == 401:
        return f"site '{site}': the key was not accepted: {plain_text(error.response.text[:200])}"
    return (
        f"site '{site}': the coordinator does not know this key: it was revoked, renewed or never "
        f"enrolled (there: fedlore federation enrol {site} site.pub), or it is in use elsewhere"
    )


VISIT = "fedlore-visit"  # a header that names one start of a site
SIGNED = (FLEET_HTTP_PUBLIC_KEY_HEADER, FLEET_HTTP_SIGNATURE_HEADER, TIMESTAMP_HEADER)


class Unsigned(FedloreError):
    """A request that no enrolled site has signed."""

    kind = "not-signed"


class UnknownKey(Unsigned):
    """A request with a key that is not enrolled."""


@dataclass(frozen=True)
class Signing:
    """Signs every request of a site, and names this start of it: a copy of its kit is noticed."""

    key: ec.EllipticCurvePrivateKey
    visit: str

    @cached_property
    def _public(self) -> bytes:
        return public_key_to_bytes(self.key.public_key())

    def intercept(self, context: Any, call_next: Callable[[Any], httpx.Response]) -> httpx.Response:
        now = datetime.datetime.now(datetime.UTC).isoformat()
        told = (self._public, sign_message(self.key, now.encode()))
        texts = [base64.b64encode(data).decode() for data in told]
        headers = dict(zip(SIGNED, [*texts, now], strict=True)) | {VISIT: self.visit}
        context.request.headers.update(headers)
        return call_next(context)


def read_signer(
    headers: Mapping[str, str], known: Collection[bytes], *, now: datetime.datetime | None = None
) -> bytes:
    """The enrolled key whose signature is good for this moment."""
    try:
        key, signature = (base64.b64decode(headers[name], validate=True) for name in SIGNED[:2])
        told = headers[TIMESTAMP_HEADER]
        signed = datetime.datetime.fromisoformat(told)
    except (KeyError, ValueError, binascii.Error):
        raise Unsigned("the request is not signed") from None
    if key not in known:  # first, since looking it up costs nothing
        raise UnknownKey("the key of the request is not enrolled")
    if signed.tzinfo is None:
        raise Unsigned("the time of the request has no zone")
    age = ((now or datetime.datetime.now(datetime.UTC)) - signed).total_seconds()
    if not -AHEAD < age < BEHIND:
        raise Unsigned(
            f"the site's clock is {abs(age):.0f} s {'behind' if age > 0 else 'ahead of'} the "
            "coordinator's: set it"
        )
    if not verify_signature(_parsed(key), told.encode(), signature):
        raise Unsigned("the signature of the request does not fit")
    return key


@lru_cache(maxsize=20_000)  # of enrolled sites alone: it is asked after `known`
def _parsed(key: bytes) -> ec.EllipticCurvePublicKey:
    return bytes_to_public_key(key)
