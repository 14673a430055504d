"""Kinds of knowledge source, one file each with all its faces: read, write, words, lint.

The kinds are listed in `catalog`, which also finds those of other packages.
"""

_FAULT = "source"  # the code of errors raised here
