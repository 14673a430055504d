"""One seed of one setting: what the uploads look like, and the secrets behind them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedlore import Examples
from fedlore.algorithms import Plan
from fedlore.core.rng import draw_numbers, stream
from fedlore.core.scaler import Scaler
from fedlore.engine import Client, scaler_of
from fedlore.experiments import LORE_1, Drawing, predict_approach, score_approach

from .coordinator import ObservedRun, anatomy, as_trained, leak_filters, observe_run, row_errors
from .looks import EARLY, member_by_loss, over_time, secrets_of
from .lore import Overheard, look_at, overhear
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


class Watchtower:
    """One drawing of clients: every training is run once and looked at in several ways."""

    def __init__(self, it: Drawing) -> None:
        self.it = it
        self._trained: dict[tuple[object, ...], list[tuple[list[Client], ObservedRun]]] = {}
        self._short: dict[tuple[object, ...], list[tuple[list[Client], ObservedRun]]] = {}
        self._overheard: dict[tuple[object, ...], Overheard] = {}
        self._single: dict[tuple[object, ...], list[tuple[list[Client], ObservedRun]]] = {}

    def observe(self, setting: LeakSetting) -> Observed:
        """What one setting shows."""
        if setting.approach.chosen:
            return self._chosen(setting)
        parts = [self._look(*pair, setting) for pair in self._runs(setting)]
        k = parts[0]["union"].shape[1]
        sites = [c.id for group in self._groups(setting) for c in group]
        whole = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        together = [i for i, part in enumerate(parts) for _ in part["ta"]]
        whole["together"] = torch.tensor(together)
        assert whole["classes"].shape[:2] == (len(sites), k)
        signs, trust = self._trusts(setting)
        rows = self._rows(setting)
        return Observed(tuple(sites), trust_signs=signs, trust=trust, **rows, **whole)

    def _chosen(self, setting: LeakSetting) -> Observed:
        """The same of a recipe that the sites choose, of which λ is no part."""
        key = setting.training
        if key not in self._overheard:
            self._overheard[key] = overhear(self.it, setting)
        whole = look_at(self._overheard[key], self.it, setting)
        # one of its candidates is what is asked to make one step on one row
        one = replace(LORE_1, algorithm=setting.approach.algorithm)
        rows = self._rows(replace(setting, approach=one))
        none = torch.zeros(0, dtype=torch.float64)
        sites = tuple(client.id for client in self.it.class_clients)
        together = torch.zeros(len(sites), dtype=torch.int64)
        return Observed(
            sites, together=together, trust_signs=none[:, None], trust=none, **rows, **whole
        )

    def _groups(self, setting: LeakSetting) -> list[list[Client]]:
        clients = self.it.class_clients
        if not setting.pairs:
            return [list(clients)]
        return [list(clients[i : i + 2]) for i in range(0, len(clients) - 1, 2)]

    def _scaler(self, group: Sequence[Client]) -> Scaler | None:
        return scaler_of(group) if self.it.scale else None

    def _observe_runs(
        self, group: Sequence[Client], setting: LeakSetting, plan: Plan, rounds: int, **more: bool
    ) -> ObservedRun:
        it = self.it
        return observe_run(
            group,
            it.make_model(setting.approach.hears),
            setting,
            plan=plan,
            rounds=rounds,
            seed=it.seed,
            scaler=self._scaler(group),
            filters=leak_filters(setting, group, it.rounds),
            **more,
        )

    def _runs(self, setting: LeakSetting) -> list[tuple[list[Client], ObservedRun]]:
        key = setting.training
        if key not in self._trained:
            self._trained[key] = [
                (
                    g,
                    self._observe_runs(
                        [as_trained(c, setting) for c in g], setting, it.plan, it.rounds
                    ),
                )
                for it in [self.it]
                for g in self._groups(setting)
            ]
        return self._trained[key]

    def _look(
        self, group: list[Client], run: ObservedRun, setting: LeakSetting
    ) -> dict[str, Tensor]:
        at = anatomy(run, setting)
        looks = {c.id: _observe(run, c.id, setting) for c in group}
        known = [float(setting.view == "single") * math.log(len(c.data)) for c in group]
        whole = [
            torch.cat([over_time(looks[c.id], lambda s: site_signs(s, at)), torch.tensor([rows])])
            for c, rows in zip(group, known, strict=True)
        ]
        found = {
            "still": [find_untouched(looks[c.id][0], at) for c in group],
            "classes": [over_time(looks[c.id], lambda s: class_signs(s, at)) for c in group],
            "whole": whole,
            "member": [
                member_by_loss(run.fitted.recipe, looks[c.id], c, self.it.seed) for c in group
            ],
            **secrets_of(group),
        }
        ta = [
            score_approach(setting.approach, c, predict_approach(setting.approach, run.fitted, c))
            for c in group
        ]
        found["ta"] = [torch.tensor(s["ta"], dtype=torch.float64) for s in ta]
        return {name: torch.stack(values) for name, values in found.items()}

    def _trusts(self, setting: LeakSetting) -> tuple[Tensor, Tensor]:
        """Short runs in which every site has drawn its λ."""
        if not setting.uses_trust:
            return torch.zeros(0, 0, dtype=torch.float64), torch.zeros(0, dtype=torch.float64)
        it, key = self.it, setting.training
        if key not in self._short:
            self._short[key] = []
            for number in range(DRAWINGS):
                for group in self._groups(setting):
                    dice = stream(it.seed, "leak trust", number, group[0].id)
                    picks = torch.randint(len(_TRUSTS), (len(group),), generator=dice)
                    drawn = [
                        as_trained(replace(c, test=None), setting, _TRUSTS[int(p)])
                        for c, p in zip(group, picks, strict=True)
                    ]
                    self._short[key].append(
                        (drawn, self._observe_runs(drawn, setting, it.plan, min(EARLY, it.rounds)))
                    )
        signs, trust = [], []
        for drawn, run in self._short[key]:
            look = partial(site_signs, at=anatomy(run, setting))
            for client in drawn:
                signs.append(over_time(_observe(run, client.id, setting), look))
                trust.append(client.knowledge.trust)
        return torch.stack(signs), torch.tensor(trust, dtype=torch.float64)

    def _rows(self, setting: LeakSetting) -> dict[str, Tensor]:
        """Errors of the one-row attack: of the range, and of whether the expert is right."""
        it, key = self.it, setting.training
        plan = replace(it.plan, steps=1, batch=1, schedule="constant")
        if key not in self._single:
            self._single[key] = []
            for number in range(PROBES):
                for group in self._groups(setting):
                    rows = [
                        replace(c, data=_one(c.data, it.seed, c.id, number), test=None)
                        for c in group
                    ]
                    rows = [as_trained(c, setting) for c in rows]
                    run = self._observe_runs(rows, setting, plan, 1, one_by_one=True)
                    self._single[key].append((rows, run))
        names = [c.id for group in self._groups(setting) for c in group]
        return row_errors(self._single[key], setting, plan, names)


def _observe(run: ObservedRun, site: str, setting: LeakSetting) -> list[Seen]:
    start = run.start
    return [exchange.seen(site, setting.view, start) for exchange in run.exchanges]


def _one(data: Examples, seed: int, who: str, number: int) -> Examples:
    row = draw_numbers(1, len(data), seed, "leak row", who, number)[0]
    return data[row : row + 1]
