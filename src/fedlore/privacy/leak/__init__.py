"""What a curious coordinator reads from uploads, and how good a guess that is."""

_FAULT = "leak"  # the code of errors raised here
