"""What cannot be imported everywhere is not looked through for examples."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["src/fedlore/engine/stacked/ordinal_kernels.py"]
