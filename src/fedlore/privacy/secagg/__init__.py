"""Secure aggregation: the server learns the sum of the uploads and nothing else."""

_FAULT = "secure-sum"  # the code of errors raised here
