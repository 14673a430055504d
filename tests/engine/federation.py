"""The small federation of `fedlore.testing`, under the names that tests use."""

from fedlore.testing.clients import CLASSES, FEATURES
from fedlore.testing.clients import small_federation as federation
from fedlore.testing.clients import small_rows as rows

__all__ = ["CLASSES", "FEATURES", "federation", "rows"]
