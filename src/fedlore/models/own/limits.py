"""How much a site's own models may cost: bounds by rows, not by a clock.

The same rows give the same models on every machine, however busy it is.
"""

import math

MOST_GAUSSIAN = 1_000  # rows of a Gaussian process: its cost grows with their cube
MOST_TERMS = 1_000  # of a quadratic model
MOST_TRIED = 8_000  # rows of one fit in cross-validation, where everything is fitted many times
MOST_LEARNED = 20_000  # and of a final fit, where a learner has a bounded size
HALVED_FROM = 5_000  # rows from which on the first fold alone chooses modes and settings
MOST_WEIGHED = 5_000  # rows by which members of an ensemble are weighed and made steeper


def thin(rows: int, most: int | None = None) -> slice:
    """Evenly spaced rows, at most so many.

    >>> len(range(1000)[thin(1000)]), len(range(50_000)[thin(50_000)])
    (1000, 16667)
    """
    return slice(None, None, max(1, math.ceil(rows / (most or MOST_LEARNED))))
