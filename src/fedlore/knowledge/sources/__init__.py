"""Kinds of knowledge source, one file each with all its faces: read, write, words, lint.

The kinds are listed in `catalog`; those of other packages are found by `found`.
"""

_FAULT = "source"  # the code of errors raised here
