"""Which members a site with shapes goes without, in a sentence."""

from .seat import Seat


def say_left_out(seat: Seat) -> str:
    """Who is not in the site's mixture since nothing shows that he keeps its shapes; or nothing."""
    if seat.shapes is None:
        return ""
    shapes = ", ".join(map(str, seat.shapes))
    lost = ["own models with products of features"] if seat.common.menu.own else []
    if seat.common.menu.exact is not None:
        lost.append("all but the linear part of the federation of one round")
    if seat.member.knowledge.prediction is not None and not seat.hears_expert:
        lost.append("the expert, who is not shown to move so")
    named = " and ".join([", ".join(lost[:-1]), lost[-1]] if len(lost) > 1 else lost)
    return f"Left out so that the shapes hold for sure ({shapes}): {named}." if lost else ""
