"""What a command says of a bundle whose rules have dates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .screen import Screen

if TYPE_CHECKING:
    from ..bundle import Bundle


def say_dates(bundle: Bundle, screen: Screen) -> None:
    """As of which day it answers, and what has run out or will soon."""
    if bundle.timeline is None:
        return
    screen.aside(bundle.timeline.sentence)
    for words in bundle.timeline.warnings:
        screen.aside(f"warning: {words}")
