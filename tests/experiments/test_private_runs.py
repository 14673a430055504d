"""fedlore run under a privacy budget: bounds in place of sums, and what it cost in every row."""

import pytest

from fedlore.errors import ConfigError
from fedlore.experiments.runs import run_federation
from fedlore.experiments.sites import gather
from fedlore.knowledge.scope import scaler_of_scope
from fedlore_coke.starter import write_starter


def private(folder, dp, rounds=1):
    write_starter(folder)
    path = folder / "federation.toml"
    text = path.read_text().replace("rounds = 20", f"rounds = {rounds}")
    start = text.index("approaches = ")
    end = text.index("\n", start)
    text = text[:start] + 'approaches = ["FLwKM"]' + text[end:]
    path.write_text(text + f"\n[privacy]\ndp = {dp}\n")
    return gather(path)


def agreed(gathering):
    """Every site with the first one's declared bounds."""
    first = gathering.clients[0].knowledge.schema
    for client in gathering.clients:
        object.__setattr__(client.knowledge, "schema", first)
    return first


def test_bounds_of_ones_own_are_refused_and_common_ones_are_used(tmp_path):
    gathering = private(tmp_path, "{epsilon = 4, delta = 1e-5}")
    with pytest.raises(ConfigError, match="declared bounds, which must be the same at all sites"):
        run_federation(gathering, tmp_path / "out")
    first = agreed(gathering)
    assert gathering.scaling.shift.tolist() == scaler_of_scope(first).shift.tolist()
    found = run_federation(gathering, tmp_path / "out")
    spent = {row["privacy"] for row in found.rows}
    assert len(spent) == 1
    line = spent.pop()
    assert line.startswith("ε = 4 at δ = 1e-05, site level, 1 rounds, sampling 1.0; the coordin")
    again = run_federation(gathering, tmp_path / "out")  # finished: nothing is trained or spent
    assert {row["privacy"] for row in again.rows} == {line}
