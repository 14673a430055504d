"""The one place that says which version this is; packaging and every message read it here."""

__version__ = "0.2.0"
