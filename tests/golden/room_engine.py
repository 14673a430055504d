"""Engine and data: temperatures, λ that sites choose, weights to start from, partitions, drafts."""

import math
import tempfile
from pathlib import Path

import numpy as np
import torch

from fedlore.answers import Bins, Measured
from fedlore.core.examples import Examples
from fedlore.data import draft, partition
from fedlore.data.rows import cells
from fedlore.engine.lore import start, temperature
from fedlore.engine.tuning import oof, trust

from .room_core import _classes, _grid, _shares
from .values import tried

NAN = math.nan


def temperatures_of_an_ensemble():
    p, y = _shares(40, 4) * 0.9 + 0.025, _classes(40, 4)
    wide = Measured(_grid(40, 2), _grid(40, 1, 9)[:, 0].double(), cut=Bins(-6.0, 6.0, 8))
    centre = wide.y + (_grid(40, 1) / 3)[:, 0].double()
    few = [centre[:n] for n in (5, 9, 10)]
    return [
        temperature.network_factor(p.log() * 3, Examples(_grid(40, 2), y)),
        [temperature.judge_classes(p, y, ordered=o) for o in (True, False)],
        temperature.judge_classes(_shares(40, 4), y, ordered=False),
        temperature.judge_number(centre, wide, 1.5),
        [temperature.number_width(c, wide[: len(c)], 0.7) for c in (centre, *few)],
        temperature.root_miss(centre, wide.y), temperature.root_miss(centre, centre),
        temperature.weighed_rows(torch.arange(12) % 3 > 0),
    ]  # fmt: skip


def costs_of_trust():
    rest, prior, y = _shares(12, 4) * 0.9 + 0.025, _shares(12, 4), _classes(12, 4)
    prior[::4] = 0.0
    each = torch.linspace(0, 1, 12).double()
    numbers = [_grid(12, 1, s)[:, 0].double() for s in (5, 7, 9, 3)]
    kept = [[f(each) for f in trust.class_costs(rest, prior, y, ordered=o)] for o in (True, False)]
    kept += [[f(each) for f in trust.number_costs(*numbers)]]
    kept += [[trust._number(v) for v in (0.0, 1e-31, 1e-29, -0.123456789, 1e9)]]
    kept += [trust._write(("a", "b", "c"), 0.5, [1.0, -2.0, 3.0], [1.0, 0.5, 9.0], [2.0, 0.5, 0.0])]
    z = _grid(12, 2).double()
    cost = trust.number_costs(*numbers)[0]
    kept += [
        [part.round(decimals=3) for part in trust._fit(z, cost, each >= 0, s)] for s in (0.0, 0.5)
    ]
    odd = [
        {},
        {"folds": 1},
        {"folds": 2},
        {"training": (1.0,)},
        {"training": (-0.1,)},
        {"training": ()},
        {"grid": ()},
        {"grid": (0.0, 0.999)},
        {"grid": (1.0,)},
    ]
    return kept + [tried(trust.Tuning, **o) for o in odd]  # fmt: skip


def a_choice_by_hits():
    known = Examples(_grid(24, 2), _classes(24, 4), _shares(24, 4), _grid(24, 4) >= -2)
    first = oof.Cached(_grid(24, 4).float(), known)
    second = oof.Cached(_grid(24, 4).flip(0).float(), known)
    found = trust.pick([(0.0, first), (0.3, second)], trust.Tuning())
    return [oof.hits(first, (0.0, 0.5, 0.9)), oof.most_hits(first), oof.most_hits(second), found,
            len(oof.Cached.join([first, second])),
            [tried(oof.check_folds, n) for n in (1, 2)]]  # fmt: skip


def weights_to_start_from():
    return [
        start.lift_expert(("a", "expert", "b"), torch.tensor(w).double(), least)
        for w in ((0.5, 0.1, 0.4), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))
        for least in (0.0, 0.1, 0.3)
    ]
    # fmt: skip


def rows_dealt_to_sites():
    y = _classes(60, 4)
    few = torch.tensor([2, 2, 0])
    return [
        [tried(partition.by_class, y, *a, seed=3) for a in ((3, 2), (4, 1), (2, 4), (1, 5), (0,
         1))],
        [tried(partition.class_owners, y, *a, seed=1) for a in ((3, 2), (4, 1), (3, 0), (8, 4))],
        [tried(partition.dirichlet, y, 3, a, seed=2) for a in (0.5, 100.0, 0.0)],
        partition.by_value(["b", "a", "b"]), partition.by_value(few), partition.present(few),
        [tried(partition.iid, n, c, seed=0) for n, c in ((7, 3), (3, 3), (2, 3), (3, 0))],
        [tried(partition.stratify, y[:n], s, seed=0) for n in (8, 60) for s in (0.0, 0.25, 0.5,
         1.0)],
    ]  # fmt: skip


TABLES = {
    "grades": "id;Ash [%];mine;day;grade\n" + "".join(
        f"{i};{i % 9},5;{'abc'[i % 3]};2024-0{i % 9 + 1}-11;{'low mid high'.split()[i % 3]}\n"
        for i in range(40)),
    "numbers": "a,b,twice,flat,words,csr\n" + "".join(
        f"{i % 7},{(i * i) % 11 / 10},{2 * (i % 7)},3,w{i},{30 + i % 7 + (i * i) % 11 / 10}\n"
        for i in range(40)),
    "codes": "x,class\n" + "".join(f"{i / 4 - 3},{i % 3}\n" for i in range(30)),
    "holes": "x,empty,y\n" + "".join(f"{'' if i % 4 else i},,{i % 2}\n" for i in range(20)),
    "few": "x,y\n1,a\n", "none": "x,y\n", "one": "x,y\n" + "1,a\n" * 9,
}  # fmt: skip


def drafts_of_knowledge():
    kept = []
    with tempfile.TemporaryDirectory() as folder:
        for name, text in TABLES.items():
            path = Path(folder) / f"{name}.csv"
            path.write_text(text)
            for label in (text.partition("\n")[0].replace(";", ",").split(",")[-1], "none"):
                kept.append(tried(lambda p=path, n=label: draft.draft_knowledge(
                    draft.read_cells(p), n)))  # fmt: skip
    ends = [(0.0, 0.0), (0.1, 0.9), (-3.0, 7.0), (0.0, 1234.0), (1e-6, 2e-6), (98.0, 100.0)]
    kept += [[draft._widen(a, b, positive=p) for p in (True, False)] for a, b in ends]
    kept += [draft._scope(np.array(v)) for v in ((1.0, 2.0, 40.0), (5.0, 5.0), (0.0, 100.0))]
    orders = [
        "low mid high".split(),
        ["G1", "G10", "G2"],
        ["a", "b"],
        ["no", "yes"],
        ["1", "2", "3"],
    ]
    taken = {"a"}
    kept += [draft._order(names) for names in orders]
    return [*kept, [draft._word(n, taken) for n in ("a", "1x", "é b", "class", "", "a")],
            sorted(["G10", "G2", "x", "3"], key=draft._natural)]  # fmt: skip


def cells_of_files():
    some = [
        "1",
        " 2.5 ",
        "",
        None,
        "x",
        3,
        4.5,
        True,
        "1e3",
        "inf",
        "nan",
        "1,5",
        "1 000",
        "-0",
        "+2",
    ]
    words = ["low", " low ", "LOW", "", None, 1, "mid", "midd", 2.0, True]
    days = ["2024-02-29", "2023-02-29", "", None, "01.02.2024", "2024-01-31T10:00", 5, "2024-12-30"]
    titles = ["Ash [%]", "Ash", "[%]", "a [b] [c]", " x ( mm ) ", "y (mm)", ""]
    problems = cells.Problems("a.csv")
    problems.add({i: " is odd" for i in range(30)}, list(range(2, 32)), "ash", 2)
    return [
        [tried(cells.number_cells, c, d) for c in (some, [1.0, 2.0], ["1", "2"]) for d in ".,"],
        [tried(cells.place_cells, c, ("low", "mid"), "class") for c in (words, ["low"], [0, 1])],
        [tried(cells.date_cells, days, part) for part in ("year", "month", "weekday", "day",
         "date")],
        [cells.name_and_unit(t) for t in titles], cells.text_cells(some),
        [cells.is_blank(c) for c in (None, "", " ", math.nan, 0, "0", "nan")], problems.count,
        tried(problems.check), str(cells.refusal("a.csv", [f"t{i}" for i in range(30)])),
        str(cells.refusal("a.csv", ["t"])), str(cells.refusal("a.csv", ["t", "u"], 9)),
        [cells.read_date(c) for c in days[:1]][0].isoformat(),
    ]  # fmt: skip
