"""Programs that a person has to install: a test that starts one says so and runs in `make slow`.

`@pytest.mark.program("chromium")` does that. Without the program such a test fails, unless
`FEDLORE_WITHOUT=chromium,soffice` says that this machine is to do without it. All other tests start
nothing but what stands in the virtual environment, what POSIX has, git and make.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

NAMES = {"chromium": ("chromium", "chromium-browser", "google-chrome")}
#: What every POSIX system has, as far as tests and the library use it, and what `make test` needs.
BARE = frozenset(
    "sh true false cat cp mv rm ls mkdir ln chmod dd echo env expr find grep head tail sed sort "
    "kill ps sleep test touch tr uname wc id df du tar git make".split()
)


def find(name: str) -> str:
    """Where a program is; skips or fails the test where it is not."""
    found = next((path for one in NAMES.get(name, (name,)) if (path := shutil.which(one))), None)
    if found is None and name in os.environ.get("FEDLORE_WITHOUT", "").split(","):
        pytest.skip(f"FEDLORE_WITHOUT: this machine has no {name}")
    if found is None:
        pytest.fail(
            f"no {name} on this machine: install it, or set FEDLORE_WITHOUT={name} to leave out "
            "the tests that need it",
            pytrace=False,
        )
    return found


def is_foreign(executable: str) -> bool:
    """Whether a program is there, and neither of this environment nor on every POSIX system."""
    found = shutil.which(executable)
    if found is None:
        return False
    path = Path(found)
    homes = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).parent}
    inside = any(home in path.parents for home in homes)
    return not inside and path.name not in BARE and not path.name.startswith("python")


class Watch:
    """Fails a test that starts a program which it does not name."""

    def __init__(self) -> None:
        self.test: str | None = None  # the one that runs, if it may start nothing foreign
        self.started: list[str] = []

    def __call__(self, event: str, args: Sequence[object]) -> None:
        if self.test is None or event not in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
            return
        name = os.fsdecode(args[0] or args[1][0])  # type: ignore[arg-type,index]
        if is_foreign(name):
            self.started.append(name)
            pytest.fail(
                f"{self.test} starts {name}: mark it with program(...), see tests/programs.py"
            )


WATCH = Watch()
