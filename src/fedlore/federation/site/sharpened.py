"""A settled model made as sharp as all sites' rows together say, on the site's own disk."""

import json
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from ...core.conformal import count_scores, unseen_holdings
from ...core.store import write_whole
from ...engine.lore import Seat
from ...engine.lore.private import Unseen
from ...engine.lore.sharpening import curve_of, sharpen_anew
from ...personal.beside import Beside
from ..journal import read_state, write_state
from ..terms import Terms
from .folder import Kit
from .settled import BROUGHT, PERSONAL, describe_mixture, is_settled, mixture_of
from .unseen import describe_unseen, restore_unseen


def losses_of(kit: Kit, run: str) -> Tensor:
    """The summed loss of this site's unseen rows by sharpness; 0 without a model of its own."""
    found: Unseen | None = None
    if is_settled(kit, run):
        about, payload = read_state(kit.path(PERSONAL))
        if "unseen" in about:
            found = restore_unseen(about["unseen"], payload["unseen"])
    with torch.no_grad():
        return curve_of(found)


def sharpen_settled(kit: Kit, terms: Terms, seat: Seat, total: Tensor) -> None:
    """Write the site's model with the new sharpness, and what it says of unseen rows with it.

    Asked again it writes the same: what is sharp already stays as it is.
    """
    if not is_settled(kit, terms.run):
        return
    about, payload = read_state(kit.path(PERSONAL))
    beside = mixture_of(about, payload, terms)
    if not isinstance(beside, Beside) or "unseen" not in about:
        return
    with torch.no_grad():
        unseen = restore_unseen(about["unseen"], payload["unseen"])
        found = sharpen_anew(beside, unseen, total)
    mixture, tensors = describe_mixture(seat, found.beside)
    told, held = describe_unseen(found.unseen)
    scores = found.judged.scores
    more: dict[str, Any] = {"mixture": mixture, "unseen": told}
    more |= {"holdings": [asdict(one) for one in unseen_holdings(scores)]}
    tensors |= {"unseen": held, "scores": {"counts": count_scores(scores).double()}}
    write_state(kit.path(PERSONAL), {**about, **more}, {**payload, **tensors}, private=True)
    path = kit.path(BROUGHT)
    if path.exists():
        table = json.loads(path.read_text(encoding="utf-8"))
        table |= {"diagram": [vars(part) for part in found.judged.diagram]}
        table |= {"probabilities": found.judged.probabilities, "calibrated": "common"}
        write_whole(path, json.dumps(table, indent=1), private=True)
