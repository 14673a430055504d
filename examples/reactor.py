"""A mechanism as knowledge: a differential equation, solved with SciPy, is the expert.

A charge of coal is heated from the wall of an oven and loses its volatile matter by a first-order
reaction with an Arrhenius rate. How much of it is gone when the oven is pushed says whether the
coke is green, sound or burnt. The numbers are plausible, not measured.

    python examples/reactor.py

>>> oven = Oven()
>>> rows = torch.tensor([[1050.0, 21.0, 8.0]])  # wall in °C, hours, moisture in %
>>> round(float(oven(rows)), 3)
0.982
>>> knowledge()(rows).tolist()  # green, sound, burnt
[[0.0, 1.0, 0.0]]
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedlore.core.examples import Examples
from fedlore.errors import KnowledgeError
from fedlore.knowledge import Knowledge
from fedlore.knowledge.formulas import GradedFormula

GRADES = ("green", "sound", "burnt")
EDGES = (0.95, 0.99)  # of the volatile matter gone
GAS_CONSTANT = 8.314e-3  # kJ/(mol K)


@dataclass(frozen=True)
class Oven:
    """The share of volatile matter gone at the end, from wall temperature, time and moisture.

    dT/dt = (wall - T) / τ         the charge warms up, the slower the wetter it is
    dv/dt = -A exp(-E / (R T)) v   and its volatile matter leaves
    """

    warming: float = 5.0  # τ of dry coal, hours
    per_moisture: float = 0.04  # how much τ grows with each percent of moisture
    rate: float = 4.0e3  # A, 1/hour
    barrier: float = 95.0  # E, kJ/mol
    start: float = 293.0  # K
    tolerance: float = 1e-8

    def __call__(self, x: Tensor, /) -> Tensor:
        """(n, 3) -> (n,). All rows are solved at once, as one large system."""
        try:
            from scipy.integrate import solve_ivp
        except ImportError as error:
            raise KnowledgeError("the reactor needs: pip install scipy") from error
        if not len(x):
            return x.new_zeros(0)
        wall, hours, moisture = x.detach().double().cpu().numpy().T
        wall = wall + 273.0
        slowness = self.warming * (1 + self.per_moisture * moisture)

        def change(_: float, state: np.ndarray) -> np.ndarray:
            temperature, volatile = state.reshape(2, -1)
            speed = self.rate * np.exp(-self.barrier / (GAS_CONSTANT * temperature))
            # each row runs over its own time, from 0 to 1
            both = hours * np.stack([(wall - temperature) / slowness, -speed * volatile])
            return both.ravel()

        begin = np.concatenate([np.full(len(x), self.start), np.ones(len(x))])
        found = solve_ivp(change, (0.0, 1.0), begin, rtol=self.tolerance, atol=self.tolerance)
        if not found.success:
            raise KnowledgeError(f"the reactor could not be solved: {found.message}")
        gone = 1 - found.y[len(x) :, -1]
        return torch.as_tensor(gone).to(x.device, x.dtype)


def knowledge() -> GradedFormula:
    """The mechanism as a P-KM: any function of rows can be graded."""
    return GradedFormula(Oven(), EDGES)


def pushes(count: int, seed: int = 0) -> Examples:
    """Made-up pushes of an oven that is a little slower than the mechanism believes."""
    generator = torch.Generator().manual_seed(seed)
    low, high = torch.tensor([[950.0, 14.0, 4.0], [1150.0, 24.0, 12.0]])
    x = low + (high - low) * torch.rand(count, 3, generator=generator)
    gone = Oven(warming=5.4)(x) + 0.004 * torch.randn(count, generator=generator)
    return Examples(x, torch.bucketize(gone, torch.tensor(EDGES), right=True))


def main() -> None:
    rows = pushes(8)
    known = Knowledge(prediction=knowledge(), trust=0.3).annotate(rows)
    assert known.prior is not None and rows.y is not None
    print("wall °C  hours  moisture %  gone    expert  measured")
    for x, gone, said, y in zip(rows.x, Oven()(rows.x), known.prior, rows.y, strict=True):
        wall, hours, moisture = x.tolist()
        grade = GRADES[int(said.argmax())]
        print(
            f"{wall:7.0f}  {hours:5.1f}  {moisture:10.1f}  {gone:.3f}  {grade:>8}  {GRADES[y]:>8}"
        )
    print(Knowledge(prediction=knowledge()).audit(pushes(500)))


if __name__ == "__main__":
    main()
