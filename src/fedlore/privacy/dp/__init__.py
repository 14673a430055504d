"""Differential privacy: noise for whole sites or single records, and the ledger of it."""
