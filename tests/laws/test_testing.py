"""The laws find what is wrong with a plug-in, and say which of them it breaks."""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import nn

from fedlore import ConfigError, FedAvg
from fedlore.core import tree
from fedlore.core.wire import SUMMED
from fedlore.engine import Local
from fedlore.testing import check_algorithm, check_engine, check_filter, check_model


@dataclass(frozen=True)
class InPlace(FedAvg):
    def merge(self, state, mean, share):
        for name, t in state["model"].items():
            t.add_(mean["model"][name])
        return state


@dataclass(frozen=True)
class NoDifference(FedAvg):
    def local(self, sent, memory, work):
        return {"model": work.descend(sent["model"])}, {}

    def merge(self, state, mean, share):
        return {"model": mean["model"]}


@dataclass(frozen=True)
class Forgetful(FedAvg):
    def local(self, sent, memory, work):
        end = work.descend(sent["model"])
        return {"model": tree.sub(end, sent["model"])}, {"kept": end}


@dataclass(frozen=True)
class Uphill(FedAvg):
    def local(self, sent, memory, work):
        upload, memory = super().local(sent, memory, work)
        return {"model": tree.scale(upload["model"], -1.0)}, memory


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("algorithm", "laws"),
    [
        (InPlace(), ["inputs_are_not_changed"]),
        (NoDifference(), ["a_rate_of_zero_uploads_zeros", "uploads_are_differences"]),
        (Forgetful(), ["stated_memory_is_what_clients_keep"]),
        (Uphill(), ["training_helps"]),
    ],
)
def test_a_wrong_algorithm_breaks_a_law(algorithm, laws):
    with pytest.raises(AssertionError) as broken:
        check_algorithm(algorithm, engines=[Local])
    for law in laws:
        assert law in str(broken.value)
    assert "engines_agree" not in str(broken.value)


def test_what_an_algorithm_raises_comes_through_with_the_law():
    @dataclass(frozen=True)
    class Broken(FedAvg):
        def merge(self, state, mean, share):
            raise KeyError("momentum")

    with pytest.raises(KeyError, match="momentum") as raised:
        check_algorithm(Broken(), engines=[Local])
    (note,) = raised.value.__notes__
    assert note.startswith("in the law inputs_are_not_changed(") and note.endswith("Local)")


class Swapped(Local):
    """An engine that gives every client the rows of another."""

    def __init__(self, clients, recipe):
        rows = [c.data for c in clients]
        turned = [replace(c, data=d) for c, d in zip(clients, rows[1:] + rows[:1], strict=True)]
        super().__init__(turned, recipe)


def test_a_wrong_engine_breaks_a_law():
    with pytest.raises(AssertionError, match="engines_agree"):
        check_engine(Swapped, algorithms=[FedAvg()])


@dataclass(frozen=True)
class Through:
    """A filter that does nothing but what it is told to do wrong."""

    wrong: str = ""

    name = "nothing"
    hides = False
    kinds = {}  # noqa: RUF012

    def make(self, around, place):
        if around.weights != "equal":
            raise ConfigError("rows are not counted")
        return self

    def site(self, name):
        return ThroughHalf(self.wrong)

    def over(self, transport):
        return transport

    def flaw(self, task, reply, like):
        return "always" if self.wrong == "flaw" else None

    def lines(self, *, rounds, sample, bare):
        return []


class ThroughHalf:
    kinds = frozenset()

    def __init__(self, wrong):
        self.wrong = wrong

    def answer(self, task):
        raise AssertionError("no task of its own")

    def summed(self, task):
        return None

    def outbound(self, task, reply):
        assert task.kind in SUMMED
        by = 1.01 if self.wrong == "mean" else 1.0
        upload = {k: tree.scale(b, by) for k, b in reply.upload.items()}
        return replace(reply, upload=upload, rows=reply.rows if self.wrong == "rows" else 1)


def test_a_filter_that_changes_nothing_passes():
    check_filter(Through(), algorithms=[FedAvg()])


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        ("mean", "a_client_that_is_not_asked_is_not_needed"),
        ("rows", "single_row_counts_do_not_reach_the_loop"),
        ("flaw", "finds_no_flaw_in_what_its_own_half_sends.*: always"),
    ],
)
def test_a_wrong_filter_breaks_a_law(wrong, law):
    with pytest.raises(AssertionError, match=law):
        check_filter(Through(wrong), algorithms=[FedAvg()])


@dataclass(frozen=True)
class Batchwise:
    """A model whose logits hang on the rows beside a row."""

    def make(self, features, classes, *, hears, seed):
        class Centred(nn.Linear):
            def forward(self, x):
                return super().forward(x - x.mean(0))

        return Centred(features, classes)


@dataclass(frozen=True)
class Seeding:
    """A model that takes its weights from the clock of the process."""

    def make(self, features, classes, *, hears, seed):
        made = nn.Linear(features, classes)
        nn.init.constant_(made.bias, torch.rand(1, generator=CLOCK).item())
        return made


CLOCK = torch.Generator().manual_seed(0)


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Batchwise(), "a_row_is_judged_by_itself"),
        (Seeding(), "the_same_seed_makes_the_same_weights"),
    ],
)
def test_a_wrong_model_breaks_a_law(kind, law):
    with pytest.raises(AssertionError, match=law):
        check_model(kind)
