"""How a site signs its requests to the fleet, and who signed one, before it is read."""

import base64
import binascii
import datetime
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric import ec

from ...errors import FedloreError
from ..node import AHEAD, BEHIND
from .names import (
    FLEET_HTTP_PUBLIC_KEY_HEADER,
    FLEET_HTTP_SIGNATURE_HEADER,
    TIMESTAMP_HEADER,
    bytes_to_public_key,
    public_key_to_bytes,
    sign_message,
    verify_signature,
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

    def intercept(self, context: Any, call_next: Callable[[Any], httpx.Response]) -> httpx.Response:
        now = datetime.datetime.now(datetime.UTC).isoformat()
        told = (public_key_to_bytes(self.key.public_key()), sign_message(self.key, now.encode()))
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
    if not verify_signature(bytes_to_public_key(key), told.encode(), signature):
        raise Unsigned("the signature of the request does not fit")
    return key
