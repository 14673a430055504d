"""Experiments: approaches compared on the same sites, as rows that are computed once and kept."""

from .alike import CONFIG, check_empty, write_alike
from .approaches import (
    APPROACHES,
    FL_MASK,
    FLWKM,
    LORE,
    LORE_1,
    Approach,
    predict_approach,
    score_approach,
    train_approach,
    training,
    trust_of,
)
from .cells import (
    ResultCell,
    ResultLedger,
    package_versions,
    replace_rows,
    settings_fingerprint,
)
from .comparing import RowSink, compare
from .confusion import confusion
from .effort import effort
from .federations import gather
from .intervals import MeanInterval, interval, pair_interval
from .ownbest import ordered_classes, own_best, own_best_words, predict_own
from .sites import read_sites

_FAULT = "run"  # the code of errors raised here

__all__ = [
    "APPROACHES",
    "CONFIG",
    "FLWKM",
    "FL_MASK",
    "LORE",
    "LORE_1",
    "Approach",
    "MeanInterval",
    "ResultCell",
    "ResultLedger",
    "RowSink",
    "check_empty",
    "compare",
    "confusion",
    "effort",
    "gather",
    "interval",
    "ordered_classes",
    "own_best",
    "own_best_words",
    "package_versions",
    "pair_interval",
    "predict_approach",
    "predict_own",
    "read_sites",
    "replace_rows",
    "score_approach",
    "settings_fingerprint",
    "train_approach",
    "training",
    "trust_of",
    "write_alike",
]
