"""torch, loaded when something is asked of it: who checks a table does not wait seconds for it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch as torch
else:

    class _Torch:
        """Stands for the library; each name is looked up once."""

        def __getattr__(self, name: str) -> object:
            value = getattr(importlib.import_module("torch"), name)
            setattr(self, name, value)
            return value

    torch = _Torch()
