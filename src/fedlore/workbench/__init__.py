"""Experiments: what is compared, and on what."""

_FAULT = "run"  # the code of errors raised here
