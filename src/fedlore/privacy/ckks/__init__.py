"""Homomorphic encryption: the server adds uploads that it cannot read."""
