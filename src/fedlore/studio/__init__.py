"""The expert's studio (extra `studio`): write, check, try and sign knowledge in a browser."""

try:
    from .app import make_studio, run_studio
    from .draft import Workplace, Workspace, find_workplace
except ModuleNotFoundError as error:
    if (error.name or "").startswith("fedlore"):
        raise
    raise ModuleNotFoundError(
        f"{error.name} is missing: pip install 'fedlore[studio]'", name=error.name
    ) from None

_FAULT = "studio"  # the code of errors raised here

__all__ = ["Workspace", "Workplace", "find_workplace", "make_studio", "run_studio"]
