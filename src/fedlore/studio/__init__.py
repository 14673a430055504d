"""The expert's studio (extra `studio`): write, check, try and sign knowledge in a browser."""

try:
    from .app import make_studio
    from .desk import Workdesk
    from .server import run_studio
    from .workplace import Workplace, find_workplace
except ModuleNotFoundError as error:
    if (error.name or "").startswith("fedlore"):
        raise
    raise ModuleNotFoundError(
        f"{error.name} is missing: pip install 'fedlore[studio]'", name=error.name
    ) from None

_FAULT = "studio"  # the code of errors raised here

__all__ = ["Workdesk", "Workplace", "find_workplace", "make_studio", "run_studio"]
