"""A journal gives back what was written, or says that it cannot."""

import pytest
import torch

from fedlore import FedloreError
from fedlore.core.store import DTYPES, from_bytes, layout_of, pack_payload, to_bytes
from fedlore.engine import Run
from fedlore.federation.journal import Journal, read_state, write_state

from ..laws.test_algorithms import assert_close

STATE = {
    "model": {"w": torch.randn(4, 3), "b": torch.tensor(0.1, dtype=torch.float64)},
    "empty": {},
    "none": {"nothing": torch.empty(0, 5)},
}


def run(round: int) -> Run:
    state = {"model": {"w": torch.full((2, 2), float(round))}}
    return Run(state, round, {"a": round}, [{"round": round, "asked": 2, "merged": 1}])


def test_state_comes_back_bit_by_bit(tmp_path):
    write_state(tmp_path / "s", {"why": "π", "round": 3}, STATE)
    header, payload = read_state(tmp_path / "s")
    assert header == {"why": "π", "round": 3}
    assert_close(payload, STATE)


@pytest.mark.parametrize("kind", DTYPES.values(), ids=list(DTYPES))
def test_every_kind_of_tensor_comes_back(kind):
    bundle = {"t": torch.arange(6).reshape(2, 3).to(kind)}
    found = from_bytes(layout_of(bundle), to_bytes(bundle))
    assert found["t"].dtype == kind and torch.equal(found["t"], bundle["t"])


@pytest.mark.parametrize(
    "layout",
    [[["w", "float32", [-1]]], [["w", "object", [2]]], [["w", "float32"]], [[1, "float32", [2]]]],
)
def test_a_layout_from_elsewhere_is_not_believed(layout):
    with pytest.raises(FedloreError, match="layout"):
        from_bytes(layout, b"\0" * 8)


def test_bytes_that_do_not_fit_are_refused():
    with pytest.raises(FedloreError, match="do not fit"):
        from_bytes([["w", "float32", [2]]], b"\0" * 9)


def test_the_last_round_that_can_be_read_counts(tmp_path):
    journal = Journal(tmp_path)
    for round in (1, 2, 3):
        journal.save(run(round), {"run": "x"}, {"scaler": {"shift": torch.ones(2)}})
    newest = journal.files()[0]
    newest.write_bytes(newest.read_bytes()[:-5])
    entry, wrong = journal.last()
    assert entry.run.round == 2 and entry.run.accepted == {"a": 2}
    assert entry.run.rows == run(2).rows and entry.about == {"run": "x"}
    assert torch.equal(entry.run.state["model"]["w"], torch.full((2, 2), 2.0))
    assert torch.equal(entry.common["scaler"]["shift"], torch.ones(2))
    assert len(wrong) == 1 and "round-000003" in wrong[0]


def test_an_empty_journal_has_no_last_round(tmp_path):
    assert Journal(tmp_path / "none").last() == (None, [])


def test_only_the_last_rounds_are_kept(tmp_path):
    journal = Journal(tmp_path, keep=2)
    for round in range(1, 6):
        journal.save(run(round), {})
    assert [path.name for path in journal.files()] == [
        "round-000005.journal",
        "round-000004.journal",
    ]


@pytest.mark.parametrize("data", [b"fedlore 1\nwhat", pack_payload(STATE, {"format": 3})])
def test_another_format_is_refused_in_one_sentence(tmp_path, data):
    path = tmp_path / "round-000007.journal"
    path.write_bytes(data)
    with pytest.raises(FedloreError, match="has format [13], this fedlore reads format 2"):
        Journal(tmp_path).last()


def test_what_a_killed_save_left_goes_with_the_next(tmp_path):
    journal = Journal(tmp_path)
    (tmp_path / ".round-000001.journal.12ab.part").write_bytes(b"half")
    journal.save(run(1), {})
    assert [path.name for path in tmp_path.iterdir()] == ["round-000001.journal"]
