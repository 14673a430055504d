"""Studies that made pages of the docs: run from a checkout, not part of the package."""
