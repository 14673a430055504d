"""holdings.json: cuts under which sets and intervals of a bundle hold, and whose rows say so."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict

from ..config import build
from ..core.conformal import Holding, check_level
from ..errors import FedloreError
from .archive import Refused

HOLDINGS = "holdings.json"
_MOST = 64  # cuts in one bundle


def pack_holdings(holdings: Sequence[Holding]) -> bytes:
    """The member of a bundle."""
    return (json.dumps([asdict(one) for one in holdings], indent=1) + "\n").encode()


def read_holdings(data: bytes) -> tuple[Holding, ...]:
    """The cuts of such a member; nothing in it is believed before it is checked."""
    try:
        values = json.loads(data)
        if not isinstance(values, list) or len(values) > _MOST:
            raise Refused(f"{HOLDINGS} must be a list of at most {_MOST} cuts")
        found = tuple(build(Holding, one) for one in values)
        for one in found:
            check_level(one.level)
            if not (math.isfinite(one.cut) and 0.0 <= one.cut <= 1.0 and one.rows > 0):
                raise Refused(f"{HOLDINGS}: a cut of {one.cut} by {one.rows} rows is none")
    except Refused:
        raise
    except (ValueError, TypeError, RecursionError, FedloreError) as error:
        raise Refused(f"{HOLDINGS} is not readable: {error}") from None
    return found
