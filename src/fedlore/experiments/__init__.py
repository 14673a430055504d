"""Experiments: approaches compared on the same sites, as rows that are computed once and kept."""

from .approaches import (
    APPROACHES,
    FL,
    FL_MASK,
    FLWKM,
    LOCAL_BEST,
    LORE,
    LORE_1,
    ML,
    MLWKM,
    PKM,
    Approach,
    effort,
    local_best_words,
    trust_of,
)
from .cells import ResultCell, ResultLedger, package_versions, replace_rows, settings_fingerprint
from .classes import ordered_classes, predict_approach, score_approach
from .intervals import MeanInterval, interval, pair_interval
from .runner import Drawing, Outcome, RowSink, Runner, Trained, compare, train_approach
from .scaffold import CONFIG, check_empty, write_alike
from .sites import gather, read_sites

_FAULT = "run"  # the code of errors raised here

__all__ = [
    "APPROACHES",
    "Approach",
    "CONFIG",
    "Drawing",
    "FL",
    "FLWKM",
    "FL_MASK",
    "LORE",
    "LORE_1",
    "ML",
    "MLWKM",
    "MeanInterval",
    "LOCAL_BEST",
    "Outcome",
    "PKM",
    "ResultCell",
    "ResultLedger",
    "RowSink",
    "Runner",
    "Trained",
    "check_empty",
    "compare",
    "effort",
    "gather",
    "interval",
    "local_best_words",
    "ordered_classes",
    "package_versions",
    "pair_interval",
    "predict_approach",
    "read_sites",
    "replace_rows",
    "score_approach",
    "settings_fingerprint",
    "train_approach",
    "trust_of",
    "write_alike",
]
