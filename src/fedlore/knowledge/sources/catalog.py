"""The kinds of knowledge source, by the keys that name them in a file."""

from .conformal import CONFORMAL
from .entry import ENTRY
from .formula import FORMULA, LIMITS
from .kind import SourceKind
from .onnx import ONNX
from .table import TABLE

SOURCE_KINDS: dict[str, SourceKind] = {
    "table": TABLE,
    "formula": FORMULA,
    "lower": LIMITS,
    "upper": LIMITS,
    "onnx": ONNX,
    "entry": ENTRY,
    "conformal": CONFORMAL,
}
