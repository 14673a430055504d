"""How well a share of rows is known."""


def wilson(right: float, n: int, *, wide: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a share of n rows (Wilson 1927), right for few rows and near 0 and 1.

    >>> [round(end, 3) for end in wilson(0.5, 100)]
    [0.404, 0.596]
    """
    z = wide**2 / n
    centre = (right + z / 2) / (1 + z)
    half = (z * right * (1 - right) + z * z / 4) ** 0.5 / (1 + z)
    return max(centre - half, 0.0), min(centre + half, 1.0)
