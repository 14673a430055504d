"""Rows in, answers with reasons out."""

_FAULT = "predict"  # the code of errors raised here
