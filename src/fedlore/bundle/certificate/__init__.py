"""The range certificate: that no output leaves the range, stated so that others can check it."""

from .statement import Claim, certify, write_certificate

_FAULT = "certificate"  # the code of errors raised here

__all__ = ["Claim", "certify", "write_certificate"]
