"""fedlore leak: attacks on what a coordinator sees, each against chance."""

_FAULT = "leak"  # the code of errors raised here
