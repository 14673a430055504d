"""An independent check of a range certificate: numpy, and `onnx` for graphs; nothing of training.

The folders `checker`, `kernel` and `words` and the files `errors.py` and `config.py` run wherever
they are copied: `python audit/checker CERTIFICATE BUNDLE|MODEL.onnx [KEY]`.
"""

from .verdict import Line, Outcome, check, outcome_of

__all__ = ["Line", "Outcome", "check", "outcome_of"]
