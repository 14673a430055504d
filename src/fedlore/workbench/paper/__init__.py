"""The paper's tables on real data."""
