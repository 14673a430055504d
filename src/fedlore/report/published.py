"""The numbers that Fan et al. (2022) print, in percent, to stand beside ours.

Table 1 is their coking case on private data, table 3 compares approaches at 1 % of the training
rows and λ = 0.3, table 2 is FLwKM by share of training rows. For FMNIST the paper prints the FL
column a second time as ML for clients 2 to 5; the TA here is from its authors' own result file.
"""

__all__ = ["BY_SHARE", "POV", "TA", "mean_ta"]

_Column = tuple[float, ...]  # one number per client

#: data set -> approach -> TA of each client
TA: dict[str, dict[str, _Column]] = {
    "covtype": {
        "ML": (87, 54, 87, 65, 92),
        "P-KM": (83, 59, 83, 67, 87),
        "MLwKM": (89, 62, 90, 79, 92),
        "FL": (90, 65, 88, 67, 92),
        "FLwKM": (92, 71, 93, 79, 94),
    },
    "fmnist": {
        "ML": (81, 66, 77, 70, 81),
        "P-KM": (78, 59, 61, 65, 79),
        "MLwKM": (85, 69, 80, 76, 85),
        "FL": (83, 74, 82, 76, 85),
        "FLwKM": (88, 79, 84, 84, 89),
    },
    "case": {
        "ML": (56, 43, 51, 42),
        "P-KM": (51, 40, 38, 43),
        "MLwKM": (66, 51, 47, 52),
        "FL": (68, 62, 60, 67),
        "FLwKM": (68, 63, 61, 64),
    },
}

#: data set -> approach -> POV of each client, where it is not 0. FMNIST's ML is left out: the
#: paper repeats the FL column there.
POV: dict[str, dict[str, _Column]] = {
    "covtype": {"ML": (2, 10, 4, 15, 2), "FL": (3, 10, 6, 13, 3)},
    "fmnist": {"FL": (9, 12, 8, 12, 6)},
    "case": {"ML": (8, 16, 7, 6), "FL": (7, 11, 3, 12)},
}

#: data set -> share of the training rows -> TA of FLwKM at each client
BY_SHARE: dict[str, dict[float, _Column]] = {
    "covtype": {
        0.01: (92, 71, 93, 79, 94),
        0.05: (94, 83, 94, 83, 95),
        0.10: (94, 88, 94, 84, 96),
        0.30: (95, 90, 95, 86, 97),
    },
    "fmnist": {
        0.01: (88, 79, 84, 84, 89),
        0.05: (90, 87, 90, 89, 91),
        0.10: (92, 87, 90, 91, 92),
        0.30: (94, 90, 94, 93, 95),
    },
}

#: the share of the training rows behind TA and POV of the public data sets
_SHARE = 0.01


def mean_ta(dataset: str, approach: str, share: float | None = None) -> float | None:
    """The paper's mean TA over clients, in percent; None where it prints nothing.

    >>> mean_ta("covtype", "FLwKM"), mean_ta("covtype", "FLwKM", 0.3), mean_ta("covtype", "lore")
    (85.8, 92.6, None)
    """
    if share is None or share == _SHARE:
        column = TA.get(dataset, {}).get(approach)
    elif approach == "FLwKM":
        column = BY_SHARE.get(dataset, {}).get(share)
    else:
        column = None
    return None if column is None else sum(column) / len(column)
