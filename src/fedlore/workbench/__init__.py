"""Experiments: what is compared, and on what."""
