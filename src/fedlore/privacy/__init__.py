"""Defences between a site and the coordinator, and attacks that measure what still leaks."""
