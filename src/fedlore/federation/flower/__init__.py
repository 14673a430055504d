"""Flower behind the one loop: the only room that knows it."""

_FAULT = "connection"  # the code of errors raised here
