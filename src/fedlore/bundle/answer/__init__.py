"""Rows in, answers with reasons out."""
