"""A federation of sites on several machines: files, keys, processes, policies."""

_FAULT = "federation"  # the code of errors raised here
