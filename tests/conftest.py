"""One thread and one hypothesis profile for every test."""

import torch
from hypothesis import settings

torch.set_num_threads(1)
settings.register_profile("fedlore", deadline=None, derandomize=True)
settings.load_profile("fedlore")

collect_ignore = ["files"]  # kept files of older versions; their script needs that version
