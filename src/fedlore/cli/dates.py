"""The day that a command asks rules of, and what it says where they have dates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from .screen import Screen

if TYPE_CHECKING:
    from ..bundle import Bundle

AsOfOption = Annotated[
    str | None,
    typer.Option("--as-of", help="The day whose rules count, as 2025-06-01; today if not said."),
]


def say_dates(bundle: Bundle, screen: Screen) -> None:
    """As of which day it answers, and what has run out or will soon."""
    if bundle.timeline is None:
        return
    screen.aside(bundle.timeline.sentence)
    for words in bundle.timeline.warnings:
        screen.aside(f"warning: {words}")
