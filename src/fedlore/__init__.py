"""Federated learning that knows what your experts know."""
