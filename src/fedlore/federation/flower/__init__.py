"""Flower behind the one loop: the only room that knows it."""
