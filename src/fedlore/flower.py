"""What the two halves of a Flower app call: fedlore's round loop on a grid that you run already.

`fedlore flower init app --schema knowledge.toml` writes such an app; `flwr run app` starts it.
"""

import sys
from pathlib import Path
from typing import Any

from .federation.coordinator.grid import train_on_grid
from .federation.site.grid import answer_message

__all__ = ["answer", "train"]


def train(grid: Any, context: Any, app: str | Path) -> None:
    """Train over the SuperNodes of a grid, by the federation.toml in the folder `app`.

    Called from the main function of a `flwr.serverapp.ServerApp` with what it is given. Journal,
    scores and shared weights lie in the folder that the run-config calls `out`.
    """
    train_on_grid(grid, context.run_config, Path(app), _say)


def answer(message: Any, context: Any) -> Any:
    """A site's answer to any message of `train`.

    Called from the functions of a `flwr.clientapp.ClientApp`. Data and knowledge are in the folder
    that the SuperNode's node-config calls `site`.
    """
    return answer_message(message, context, _say)


def _say(line: str) -> None:
    print(f"fedlore: {line}", file=sys.stderr, flush=True)  # where Flower collects its logs
