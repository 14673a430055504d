"""An independent check of a range certificate: numpy, and `onnx` for graphs; nothing of fedlore.

The folder runs wherever it is copied: `python checker CERTIFICATE BUNDLE|MODEL.onnx`.
"""

from .verdict import Line, check

__all__ = ["Line", "check"]
