"""The evidence of lore: blocks are computed once, differences are paired by seed."""

from fedlore.core.history import read_rows
from studies import evidence


def rows(seed: int, name: str = "coke", metric: str = "ta") -> list[dict]:
    values = {"local best": 0.4, "lore": 0.5, "FL": 0.3}
    return [
        {"set": name, "approach": a, "client": c, "seed": seed, metric: v + 0.01 * seed + d,
         "pov": 0.1 if a == "FL" else 0.0, "range": "expert", "cpu": 1.0}
        for a, v in values.items()
        for c, d in (("x", -0.05), ("y", 0.05))
    ]  # fmt: skip


def test_a_finished_block_is_not_computed_again(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(evidence, "block", lambda n, s, *_: asked.append((n, s)) or rows(s, n))
    out = tmp_path / "rows.jsonl"
    for seeds in (range(2), range(3)):
        evidence.compute(["coke"], seeds, out)
    assert asked == [("coke", 0), ("coke", 1), ("coke", 2)]
    assert len(read_rows(out)) == 3 * 6


def test_means_and_paired_differences_by_hand(tmp_path):
    text = evidence.summary([*rows(1), *rows(2)], tmp_path)
    assert "| local best | 41.5 ± 6.4 | 0 | +10.0 (+10.0 to +10.0) |" in text
    assert "10.00 |" in text  # the violations of FL
    assert (tmp_path / "lore2-coke.md").read_text().startswith("## coke")


def test_of_an_error_less_is_better():
    text = evidence.summary([*rows(1, "coal", "rmse"), *rows(2, "coal", "rmse")], None)
    assert "| local best | 0.415 ± 0.064 | 0 | -0.1 (-0.1 to -0.1) |" in text


def test_lore_is_held_against_the_rows_of_an_earlier_code():
    before = [{**row, "approach": "lore before"} for s in (1, 2) for row in rows(s, "coal", "rmse")]
    before = [{**row, "rmse": 2 * row["rmse"]} for row in before if row["rmse"] > 0.49]
    now = [*rows(1, "coal", "rmse"), *rows(2, "coal", "rmse")]
    assert evidence.changes(now, []) == ""
    said = evidence.changes(now, [{**row, "rmse": 1.03} for row in before])
    assert said.startswith("coal, seeds 1 to 2: 1.03 before, 0.515 now, -50.00 % (")
