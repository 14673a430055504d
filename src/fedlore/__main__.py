"""python -m fedlore."""

from .cli import main

main()
