"""Homomorphic encryption: the server adds uploads that it cannot read."""

_FAULT = "encryption"  # the code of errors raised here
