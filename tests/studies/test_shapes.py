"""The tables of the study of shapes, and its rivals on rows one can check by hand."""

from pathlib import Path

import pytest
import torch

from studies.shape_tables import differ, drawings, tables

RIVALS = ("plain", "own trees", "own monotone trees", "own ridge")


def line(name, seed, **scores):
    arms = ("without", "with", "half", "false", *RIVALS)
    about = {"set": name, "train_rows": 20, "seed": seed}
    return [about | {"approach": a, "ta": v} for a in arms for v in scores[a]]


def flat(value):
    return [value] * 4


def coke(seed, up):
    base = dict.fromkeys(("false", *RIVALS), flat(0.3))
    half = [0.9, 0.4 + up, 0.9, 0.4 + up]
    return line("coke", seed, without=flat(0.4), half=half, **base, **{"with": flat(0.41)})


def test_the_other_two_are_the_sites_without_shapes_and_a_drawing_cut_short_does_not_count():
    shown = tables([*coke(0, 0.0), *coke(1, 0.02), *coke(2, 0.9)[:-1]]).splitlines()
    assert shown[2].startswith("| coke | 20 | 2 | 40.0 % | +1.00 ± 0.00 | +1.00 ± 12.7")
    assert shown[2].endswith("| -10.00 ± 0.00 |")
    assert shown[6].startswith("| coke | 20 | 41.0 % | 30.0 % | +11.00 ± 0.00 |")


def test_a_number_is_compared_in_percent_of_rmse():
    scores = [{"with": flat(11.0), "without": flat(10.0)}] * 2
    assert differ(scores, "with", "without", range(4), False).mean == pytest.approx(10.0)


def test_monotone_trees_keep_the_direction_that_rows_contradict():
    pytest.importorskip("sklearn")
    from studies.shape_rivals import boost

    x = torch.linspace(0, 1, 60).double()[:, None]
    free, kept = (boost(x, -x[:, 0], x, signs) for signs in (None, [1]))
    assert free[0] - free[-1] > 0.5
    assert (kept.diff() >= 0).all()


def test_the_ridge_finds_a_line():
    pytest.importorskip("sklearn")
    from studies.shape_rivals import ridge

    draw = torch.Generator().manual_seed(0)
    x = torch.randn(80, 3, generator=draw).double()
    y = x @ torch.tensor([1.0, -2.0, 0.0]).double() + 5.0
    torch.testing.assert_close(ridge(x, y, x), y, atol=0.05, rtol=0.0)


def test_the_page_shows_the_tables_of_the_kept_rows():
    pytest.importorskip("sklearn")
    from studies.shapes import read_lines

    root = Path(__file__).parents[2]
    lines = read_lines(root / "results" / "shapes.jsonl")
    assert {line["seed"] for line in lines} == set(range(100, 140)) and len(drawings(lines)) == 360
    page = (root / "docs" / "explain" / "shapes.md").read_text()
    assert all(line in page for line in tables(lines).splitlines())
