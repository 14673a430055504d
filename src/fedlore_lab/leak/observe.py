"""One seed of one setting: what the uploads look like, and the secrets behind them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedlore import Examples
from fedlore.algorithms import Plan
from fedlore.core.rng import draw_numbers, stream
from fedlore.engine import Client, scaler_of
from fedlore.experiments import LORE_1, Drawing

from .coordinator import ObservedRun, anatomy, as_trained, leak_filters, observe_run, row_errors
from .lore import Overheard, look_at, overhear
from .score import EARLY, member_by_loss, over_time, sum_up
from .settings import LeakSetting
from .uploads import Seen, class_signs, find_untouched, site_signs


@dataclass(frozen=True, eq=False)
class Observed:
    """Per site: signs that the coordinator has, secrets that it is after, and the accuracy."""

    sites: tuple[str, ...]
    together: Tensor  # (m,)  which federation the site is in
    ta: Tensor  # (m,)
    still: Tensor  # (m, k)  class seems never allowed
    classes: Tensor  # (m, k, f)
    whole: Tensor  # (m, g)
    member: Tensor  # (m, 2)  AUC of two statistics
    row_range: Tensor  # (m,)  errors of the one-row attack; NaN where there is nothing to find
    row_right: Tensor  # (m,)
    row_truth: Tensor  # (m, PROBES, k)  the ranges behind
    trust_signs: Tensor  # (DRAWINGS·m, h), none where λ does not enter training
    trust: Tensor  # (DRAWINGS·m,)
    union: Tensor  # (m, k)  1 where the class is in some row's range
    frequency: Tensor  # (m, k)  share of rows whose range has the class
    labels: Tensor  # (m, k)
    right: Tensor  # (m,)  share of rows on which the expert is right

    def arrays(self) -> dict[str, Any]:
        """As plain arrays, for a file without pickles."""
        return {n: np.asarray(v) if n == "sites" else v.numpy() for n, v in vars(self).items()}

    @staticmethod
    def of(arrays: Mapping[str, Any]) -> "Observed":
        parts = {n: torch.from_numpy(v) for n, v in arrays.items() if n != "sites"}
        return Observed(tuple(str(s) for s in arrays["sites"]), **parts)


PROBES = 16  # single rows, single steps
_TRUSTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)  # λ of shadow sites
DRAWINGS = 4  # short runs with other λ, for shadows and targets alike


_Runs = list[tuple[list[Client], ObservedRun]]  # clients as they were trained, and their training


class Watchtower:
    """One drawing of clients: every training is run once and looked at in several ways."""

    def __init__(self, it: Drawing) -> None:
        self.it = it
        self._kept: dict[tuple[object, ...], _Runs] = {}
        self.overheard: dict[tuple[object, ...], Overheard] = {}

    def observe(self, setting: LeakSetting) -> Observed:
        """What one setting shows."""
        if setting.approach.chosen:
            return self._chosen(setting)
        groups = self._groups(setting)
        runs = self._once("whole", setting, lambda: [self._whole(g, setting) for g in groups])
        parts = [self._look(g, run, setting) for g, (_, run) in zip(groups, runs, strict=True)]
        whole = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        together = [i for i, part in enumerate(parts) for _ in part["ta"]]
        whole |= {
            "together": torch.tensor(together),
            **self._trusts(setting),
            **self._rows(setting),
        }
        return Observed(tuple(c.id for group in groups for c in group), **whole)

    def _chosen(self, setting: LeakSetting) -> Observed:
        """The same of a recipe that the sites choose, of which λ is no part."""
        key = setting.training
        if key not in self.overheard:
            self.overheard[key] = overhear(self.it, setting)
        whole = look_at(self.overheard[key], self.it, setting)
        # one of its candidates is what is asked to make one step on one row
        one = replace(LORE_1, algorithm=setting.approach.algorithm)
        whole |= self._rows(replace(setting, approach=one)) | _no_trust(1)
        sites = tuple(client.id for client in self.it.class_clients)
        return Observed(sites, together=torch.zeros(len(sites), dtype=torch.int64), **whole)

    def _once(self, kind: str, setting: LeakSetting, make: Callable[[], _Runs]) -> _Runs:
        """Trainings of one kind; settings that differ in the view alone share them."""
        key = (kind, *setting.training)
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def _groups(self, setting: LeakSetting) -> list[list[Client]]:
        clients = self.it.class_clients
        if not setting.pairs:
            return [list(clients)]
        return [list(clients[i : i + 2]) for i in range(0, len(clients) - 1, 2)]

    def _run(
        self, group: list[Client], setting: LeakSetting, plan: Plan, rounds: int, **more: bool
    ) -> tuple[list[Client], ObservedRun]:
        it = self.it
        return group, observe_run(
            group,
            it.make_model(setting.approach.hears),
            setting,
            plan=plan,
            rounds=rounds,
            seed=it.seed,
            scaler=scaler_of(group) if it.scale else None,
            filters=leak_filters(setting, group, it.rounds),
            **more,
        )

    def _whole(self, group: list[Client], setting: LeakSetting) -> tuple[list[Client], ObservedRun]:
        trained = [as_trained(c, setting) for c in group]
        return self._run(trained, setting, self.it.plan, self.it.rounds)

    def _look(
        self, group: list[Client], run: ObservedRun, setting: LeakSetting
    ) -> dict[str, Tensor]:
        at = anatomy(run, setting)

        def look(client: Client) -> dict[str, Tensor]:
            looks = _observe(run, client.id, setting)
            rows = float(setting.view == "single") * math.log(len(client.data))
            signs = over_time(looks, partial(site_signs, at=at))
            return {
                "still": find_untouched(looks[0], at),
                "classes": over_time(looks, partial(class_signs, at=at)),
                "whole": torch.cat([signs, torch.tensor([rows])]),
                "member": member_by_loss(run.fitted.recipe, looks, client, self.it.seed),
            }

        return sum_up(group, look, setting, run.fitted)

    def _trusts(self, setting: LeakSetting) -> dict[str, Tensor]:
        """Short runs in which every site has drawn its λ."""
        if not setting.uses_trust:
            return _no_trust(0)
        it = self.it

        def drawn(number: int, group: list[Client]) -> tuple[list[Client], ObservedRun]:
            dice = stream(it.seed, "leak trust", number, group[0].id)
            picks = torch.randint(len(_TRUSTS), (len(group),), generator=dice)
            some = [
                as_trained(replace(c, test=None), setting, _TRUSTS[int(p)])
                for c, p in zip(group, picks, strict=True)
            ]
            return self._run(some, setting, it.plan, min(EARLY, it.rounds))

        groups = self._groups(setting)
        runs = self._once(
            "short", setting, lambda: [drawn(n, g) for n in range(DRAWINGS) for g in groups]
        )
        signs, trust = [], []
        for some, run in runs:
            look = partial(site_signs, at=anatomy(run, setting))
            for client in some:
                signs.append(over_time(_observe(run, client.id, setting), look))
                trust.append(client.knowledge.trust)
        return {
            "trust_signs": torch.stack(signs),
            "trust": torch.tensor(trust, dtype=torch.float64),
        }

    def _rows(self, setting: LeakSetting) -> dict[str, Tensor]:
        """Errors of the one-row attack: of the range, and of whether the expert is right."""
        it, groups = self.it, self._groups(setting)
        plan = replace(it.plan, steps=1, batch=1, schedule="constant")

        def one(number: int, group: list[Client]) -> tuple[list[Client], ObservedRun]:
            rows = [_one(c.data, it.seed, c.id, number) for c in group]
            alone = [replace(c, data=r, test=None) for c, r in zip(group, rows, strict=True)]
            some = [as_trained(c, setting) for c in alone]
            return self._run(some, setting, plan, 1, one_by_one=True)

        runs = self._once(
            "single", setting, lambda: [one(n, g) for n in range(PROBES) for g in groups]
        )
        return row_errors(runs, setting, plan, [c.id for group in groups for c in group])


def _no_trust(width: int) -> dict[str, Tensor]:
    """Where λ does not enter training."""
    none = torch.zeros(0, width, dtype=torch.float64)
    return {"trust_signs": none, "trust": none.flatten()}


def _observe(run: ObservedRun, site: str, setting: LeakSetting) -> list[Seen]:
    start = run.start
    return [exchange.seen(site, setting.view, start) for exchange in run.exchanges]


def _one(data: Examples, seed: int, who: str, number: int) -> Examples:
    row = draw_numbers(1, len(data), seed, "leak row", who, number)[0]
    return data[row : row + 1]
