"""Watching a federation, from the files that it writes: pages, measures, lines of a terminal."""

_FAULT = "status-page"  # the code of errors raised here
