"""The paper's tables on real data."""

_FAULT = "paper"  # the code of errors raised here
