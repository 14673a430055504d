"""The paper's experiments run again, and the audit of what uploads give away."""

_FAULT = "paper"  # the code of errors raised here
