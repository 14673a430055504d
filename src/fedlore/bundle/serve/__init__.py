"""One bundle behind HTTP (extra `serve`): JSON for programs, a page for people."""

try:
    from .app import make_app
    from .guard import ServeLimits
    from .server import serve_bundle
except ModuleNotFoundError as error:
    if (error.name or "").startswith("fedlore"):
        raise
    raise ModuleNotFoundError(
        f"{error.name} is missing: pip install 'fedlore[serve]'", name=error.name
    ) from None

_FAULT = "serve"  # the code of errors raised here

__all__ = ["ServeLimits", "make_app", "serve_bundle"]
