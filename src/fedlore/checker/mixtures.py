"""That a graph's probabilities are a weighted sum of softmaxes behind the range, by its nodes.

Whatever the members are: a softmax over what is allowed is a distribution with nothing outside,
and so is a sum of such with weights that are not negative and sum to 1, the expert's among them.
"""

from typing import Any, NamedTuple

import numpy as np

Array = Any  # of numpy
NEAR = 1e-6  # by which weights may miss a sum of 1


class Unproved(Exception):
    """A node that is not of the form that proves the range."""


class Expert(NamedTuple):
    """His rows in a graph, and how far they are trusted; None where members are weighed too.

    Where λ is not one number, it is the name of what computes it.
    """

    rows: str
    trust: float | str | None


class Reader:
    """Goes from a value back to the nodes that make it."""

    def __init__(self, made: dict[str, Any], constants: dict[str, Array]) -> None:
        self.made, self.constants = made, constants

    def weights(self) -> list[float]:
        """The weights of the members, of what the expert leaves to them; or `Unproved`."""
        mask, mixed, zero = self.inputs("probabilities", "Where", 3)
        if mask != "allowed" or not self.is_constant(zero, 0.0):
            raise Unproved("the probabilities are not chosen by the range that is given out")
        mixed = self.uncast(mixed)
        if self.kind(mixed) == "Add" and self._is_told(mixed):
            mixed = self.inputs(self.inputs(mixed, "Add", 2)[0], "Mul", 2)[0]
        found = self._sum(mixed)
        if any(not 0.0 <= w <= 1.0 for w in found) or abs(sum(found) - 1.0) > NEAR:
            raise Unproved(f"the weights of its members are {found}, which do not sum to 1")
        return found

    def expert(self) -> Expert | None:
        """The expert's part of the probabilities; None where there is none."""
        _, mixed, _ = self.inputs("probabilities", "Where", 3)
        single = self.kind(mixed) != "Cast"
        mixed = self.uncast(mixed)
        if self.kind(mixed) != "Add" or not self._is_told(mixed):
            return None
        rows, trust = self.inputs(self.inputs(mixed, "Add", 2)[1], "Mul", 2)
        if not single:
            return Expert(self.uncast(rows), None)
        return Expert(rows, trust if self.kind(trust) == "Clip" else self.number(trust))

    def _is_told(self, name: str) -> bool:
        """Whether this is rest·(1 - min(Σ told, 1)) + told with told = λ·g_p, 0 <= λ <= 1."""
        kept, told = self.inputs(name, "Add", 2)
        if self.kind(told) != "Mul" or self.kind(kept) != "Mul":
            return False
        _, left = self.inputs(kept, "Mul", 2)
        if self.kind(left) != "Sub":
            return False  # a sum of members
        one, taken = self.inputs(left, "Sub", 2)
        total, most = self.inputs(taken, "Min", 2)
        good = self.is_constant(one, 1.0) and self.is_constant(most, 1.0)
        good = good and self._is_share(self.uncast(self.inputs(told, "Mul", 2)[1]))
        if not good or self._total(total) != told:
            raise Unproved("the expert's part is not λ times his prediction")
        return True

    def _is_share(self, name: str) -> bool:
        """Whether λ lies in [0, 1]: a number, or one for each row that is cut off at both ends."""
        if self.kind(name) != "Clip":
            return 0.0 <= self.number(name) <= 1.0
        self._finite(name)
        _, low, high = self.inputs(name, "Clip", 3)
        return 0.0 <= self.number(low) and self.number(high) <= 1.0

    def _sum(self, name: str) -> list[float]:
        found: list[float] = []
        while self.kind(name) == "Add":  # not by calling itself: there may be many members
            name, last = self.inputs(name, "Add", 2)
            found.append(self._weighed(last))
        return [*found, self._weighed(name)]

    def _weighed(self, name: str) -> float:
        if self.kind(name) == "Div":
            self._softmax(name)
            return 1.0
        share, weight = self.inputs(name, "Mul", 2)
        self._softmax(share)
        return self.number(weight)

    def _softmax(self, name: str) -> None:
        """exp(m - max m) within the range, divided by its sum; m finite inside, -inf outside."""
        raised, total = self.inputs(name, "Div", 2)
        if self._total(total) != raised:
            raise Unproved("a member is not divided by its own sum")
        mask, power, zero = self.inputs(raised, "Where", 3)
        masked, top = self.inputs(self.inputs(power, "Exp", 1)[0], "Sub", 2)
        (among,) = self.inputs(top, "ReduceMax", 1)
        about = {a.name: a for a in self.made[top].attribute}
        along = list(about["axes"].ints) == [1] and about["keepdims"].i == 1
        inner, logits, least = self.inputs(masked, "Where", 3)
        good = (mask, inner, among) == ("allowed", "allowed", masked) and along
        if not good or not self.is_constant(zero, 0.0) or not self.is_constant(least, -np.inf):
            raise Unproved("a member is not masked by the range before its softmax")
        self._finite(self.uncast(logits))

    def _finite(self, name: str) -> None:
        number, low, high = self.inputs(name, "Clip", 3)
        hole, zero, value = self.inputs(number, "Where", 3)
        ends = self.number(low), self.number(high)
        if self.inputs(hole, "IsNaN", 1) != [value] or not np.isfinite(ends).all():
            raise Unproved("the scores of a member are not made finite")
        if not self.is_constant(zero, 0.0) or not ends[0] < ends[1]:
            raise Unproved("the scores of a member are not made finite")

    def _total(self, name: str) -> str:
        """Of what this is the sum along the classes."""
        what, axes = self.inputs(name, "ReduceSum", 2)
        about = {a.name: a for a in self.made[name].attribute}
        if np.ravel(self.constants.get(axes, [])).tolist() != [1] or (
            "keepdims" in about and about["keepdims"].i != 1
        ):
            raise Unproved("a sum is not along the classes")
        return what

    def kind(self, name: str) -> str:
        node = self.made.get(name)
        return "" if node is None else str(node.op_type)

    def inputs(self, name: str, kind: str, count: int) -> list[str]:
        if self.kind(name) != kind or len(self.made[name].input) != count:
            raise Unproved(f"'{name}' should come from {kind}, it comes from {self.kind(name)}")
        return list(self.made[name].input)

    def uncast(self, name: str) -> str:
        """The value before it was given another precision; to whole numbers is another thing."""
        node = self.made.get(name)
        if node is not None and node.op_type == "Cast" and node.attribute[0].i in (1, 11):
            return str(node.input[0])
        return name

    def number(self, name: str) -> float:
        value = self.constants.get(name)
        if value is None or value.size != 1:
            raise Unproved(f"'{name}' should be one constant number")
        return float(value.ravel()[0])

    def is_constant(self, name: str, value: float) -> bool:
        found = self.constants.get(name)
        return found is not None and found.size == 1 and bool((found == value).all())
