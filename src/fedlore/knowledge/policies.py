"""What to do where knowledge and data disagree."""

from typing import Literal

Outside = Literal["error", "widen", "drop"]  # a training label outside its range
Conflict = Literal["abstain", "restrict", "project", "error"]  # a prediction outside the range
