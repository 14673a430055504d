"""One training among several, by name; and how many of which length there are."""

import math
from dataclasses import dataclass

from ...errors import FedloreError

MAIN = -1  # the fold of the main training: nothing is held back
MANY = 8  # candidates above which the better ones are tried a second time
_LEAST = 3  # rounds of the shortest trial, below which a vote says nothing


@dataclass(frozen=True)
class Trial:
    """A candidate of the menu, the fold that is held back, and the length."""

    candidate: int
    fold: int
    rounds: int

    def __str__(self) -> str:
        fold = "main" if self.fold == MAIN else self.fold
        return f"{self.candidate}/{fold}/{self.rounds}"

    @staticmethod
    def read(text: str) -> "Trial":
        """The trial that a task names.

        >>> Trial.read("3/main/40") == Trial(3, MAIN, 40)
        True
        """
        parts = text.split("/")
        if len(parts) == 3 and parts[1] == "main":
            parts[1] = "0"
            fold = MAIN
        elif len(parts) == 3 and parts[1].isdecimal():
            fold = int(parts[1])
        if len(parts) != 3 or not all(part.isdecimal() for part in parts):
            raise FedloreError(f"a trial is named candidate/fold/rounds, got '{text[:40]}'")
        return Trial(int(parts[0]), fold, int(parts[2]))


def rungs(candidates: int, rounds: int) -> list[tuple[int, int]]:
    """Successive halving on one fold: how many candidates are trained for how many rounds each.

    Every rung but the last costs at most one training of full length, the last has two of them.

    >>> rungs(12, 60), rungs(8, 40), rungs(1, 40)
    ([(12, 5), (4, 15), (2, 60)], [(8, 5), (2, 40)], [])
    """
    found = []
    left = candidates
    if left > 2:
        length = max(rounds // left, min(_LEAST, rounds))
        left = min(left, rounds // length)
        found.append((left, length))
        if left > MANY:
            left = math.ceil(left / 3)
            found.append((left, rounds // left))
    if left > 1:
        found.append((2, rounds))
    return found


def cost(candidates: int, rounds: int, folds: int) -> float:
    """Trainings of full length and of all rows before the main one.

    >>> round(cost(12, 60, 3), 2)
    4.0
    """
    steps = rungs(candidates, rounds)
    tried = sum(count * length for count, length in steps)
    # the winner's training on the first fold is one of the last rung, where there was one
    rest = (folds - 1 if steps else folds) * rounds
    return (1 - 1 / folds) * (tried + rest) / rounds
