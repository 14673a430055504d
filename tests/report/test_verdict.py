"""The sentence about who is best: a win has an interval, a tie is not called a win."""

from fedlore.report.tables import overview
from fedlore.report.verdict import verdict


def rows(scores, *, key="ta", sites=4, seeds=3):
    """Rows of each approach; its score moves a little by seed and site, all alike."""
    return [
        {"approach": name, "client": f"s{site}", "seed": seed, key: value + 0.01 * seed * site}
        for name, value in scores.items()
        for site in range(sites)
        for seed in range(seeds)
    ]


def test_a_winner_is_named_with_its_interval():
    found = verdict(rows({"local best": 0.5, "FL": 0.4, "lore": 0.6}))
    assert found.best == "lore" and found.ties == ()
    said = "points more than local best, the next best (95 % interval over 3 seeds)."
    assert found.sentence.startswith("lore is right on 61.5 % of test rows: 10.0 to 10.0")
    assert found.sentence.endswith(said)


def test_equal_scores_are_a_tie():
    found = verdict(rows({"local best": 0.5, "FL": 0.6, "lore": 0.6}))
    assert found.ties == ("lore",)
    assert found.sentence.startswith("No clear winner: FL has the best mean, 61.5 %")


def test_a_gap_that_may_be_chance_is_a_tie():
    some = rows({"FL": 0.5}) + [
        {**row, "approach": "lore", "ta": row["ta"] + (0.2 if row["seed"] else -0.1)}
        for row in rows({"FL": 0.5})
    ]
    assert verdict(some).ties == ("FL",)


def test_of_errors_the_lowest_wins_and_less_is_said():
    found = verdict(rows({"local best": 3.0, "lore": 2.0}, key="rmse"), "mm")
    assert found.best == "lore" and "RMSE 2.015 mm: 1 to 1 less than local best" in found.sentence


def test_one_seed_of_two_sites_cannot_tell():
    found = verdict(rows({"local best": 0.1, "lore": 0.9}, sites=2, seeds=1))
    assert found.ties and "--seeds 5" in found.sentence


def test_one_seed_of_many_sites_is_compared_over_sites():
    found = verdict(rows({"local best": 0.1, "lore": 0.9}, sites=5, seeds=1))
    assert "interval over 5 sites, one seed" in found.sentence and not found.ties


def test_nothing_is_said_of_one_approach():
    assert verdict(rows({"lore": 0.9})) is None


def test_many_sites_are_quartiles_and_the_worst_five():
    table = overview("x", rows({"local best": 0.2, "lore": 0.5}, sites=30, seeds=1))
    assert table.head == ("approach", "lowest", "25 %", "median", "75 %", "highest", "mean")
    assert table.notes == ("lore is worst at s0 50.0, s1 50.0, s2 50.0, s3 50.0, s4 50.0",)
    few = overview("x", rows({"local best": 0.2, "lore": 0.5}))
    assert few.head == ("approach", "s0", "s1", "s2", "s3", "mean")
    assert few.body[0][-1].text == "21.5 ± 3.7"


def test_the_metric_that_was_asked_for_orders_the_table_and_names_the_winner():
    some = rows({"local best": 0.3, "FL": 0.9, "lore": 0.5}, key="nll")
    some = [{**row, "ta": row["nll"]} for row in some]
    assert verdict(some).best == "FL"
    found, table = verdict(some, metric="log_loss"), overview("x", some, "log_loss")
    assert (
        found.best == "local best" and "local best misses least, log loss 0.315" in found.sentence
    )
    assert [row[0].text for row in table.body] == ["local best", "lore", "FL"]
    assert table.title == "x: log loss"
