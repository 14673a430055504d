"""What all routes say alike: problems in one shape, the token in the description, JSON bodies."""

from http import HTTPStatus
from typing import Any

from fastapi import Request
from starlette.exceptions import HTTPException

from .answer import Problem


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """What OpenAPI says of refusals."""
    return {code: {"model": Problem, "description": HTTPStatus(code).phrase} for code in codes}


def needs_token(guarded: bool, extra: dict[str, Any] | None = None) -> dict[str, Any]:
    """What OpenAPI says about an operation that needs the token."""
    needed: dict[str, Any] = {"security": [{"bearer": []}]} if guarded else {}
    return {"openapi_extra": {**needed, **(extra or {})}}


def need_json(request: Request) -> None:
    """Refuse a body that says to be anything but JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        # also what keeps other web pages out: a browser asks before it sends this type
        raise HTTPException(415, "the body must be application/json")
