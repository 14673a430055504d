"""What the coordinator hands to a site: keys, certificates, settings."""

_FAULT = "kit"  # the code of errors raised here
