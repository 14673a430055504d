"""Differential privacy: noise for whole sites or single records, and the ledger of it."""

_FAULT = "dp"  # the code of errors raised here
