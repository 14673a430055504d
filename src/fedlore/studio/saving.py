"""From the draft to the site's files: the expert's examples first."""

from ..errors import FedloreError
from .asked import Saving
from .checks import judge
from .desk import Workdesk


class BrokenExample(FedloreError):
    """A change after which examples come out otherwise."""


def save_draft(desk: Workdesk, said: Saving) -> None:
    """Write the files; examples that come out otherwise must be accepted in words."""
    with desk.lock:
        desk.check(said.token)
        found = [f for f in judge(desk.members).checkup.findings if f.code == "example"]
        if found and not said.anyway:
            more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
            raise BrokenExample(f"{found[0].place}: {found[0].message}{more}")
        desk.save(said.token, who=said.who)
