"""A mixture in a bundle: the same answers, every member named, and nothing hostile believed."""

import json
from dataclasses import replace

import pytest
import torch

from fedlore import Knowledge
from fedlore.bundle import answer_rows, bundle_of, reasons, write_bundle
from fedlore.bundle.archive import Refused
from fedlore.bundle.ensemble import member_weights
from fedlore.bundle.store import ENSEMBLE, open_members
from fedlore.bundle.update import update_bundle
from fedlore.core.store import pack_tensors, unpack_tensors
from fedlore.errors import FedloreError
from fedlore.models.own.members import OrderMember
from fedlore.words import Reason

from .making import SCHEMA, bundle, known, personal, rows, run
from .mixed import linear, mixture, plain_net, trees


def mixed(knowledge=None, **settings):
    return mixture(known() if knowledge is None else knowledge, rows(), 3, **settings)


def stored(model, client="plant"):
    return bundle_of(model, client, schema=SCHEMA)


def test_the_card_and_the_reasons_name_who_spoke():
    model = mixed(members=(OrderMember("ridge", linear(2, 1), False, False, 1.0, 3),), expert=0.2)
    made = stored(model)
    assert "- ensemble: network 40 %, ridge 40 %, expert 20 %" in made.card
    loud, silent = reasons(made, torch.tensor([[20.0, 1.0], [10.0, 1.0]]))
    assert "weights: shared network 40 %, ridge 40 %, expert 20 %" in loud
    assert "weights: shared network 50 %, ridge 50 %" in silent
    assert any("the ensemble says" in line for line in silent)
    # one class each, of the member by itself; the two need not agree
    opinions = answer_rows(made, torch.tensor([[10.0, 1.0]])).opinions
    said = [SCHEMA.classes[int(c)] for c in opinions.flatten()]
    assert f"your own model says {said[1]}; the shared network leans to {said[0]}" in silent


def test_a_member_is_asked_once_for_answer_and_reasons(monkeypatch):
    asked, plain = [], OrderMember.log_probs
    monkeypatch.setattr(OrderMember, "log_probs", lambda *of: asked.append(1) or plain(*of))
    model = mixed(members=(OrderMember("ridge", linear(2, 1), False, False, 1.0, 3),), expert=0.2)
    reasons(stored(model), torch.tensor([[20.0, 1.0], [10.0, 1.0]]))
    assert len(asked) == 1


def test_opinions_are_counted_in_words():
    heard = {"all": 3, "own": [("II", 2), ("I", 1)], "shared": {"network": "I"}}
    said = Reason("opinions", heard).words("en")
    assert said == "of your 3 own models 2 say II, 1 says I; the shared network leans to I"
    numbers = {"all": 2, "low": "4.1", "high": "4.4", "shared": {"one_shot": 4.9}}
    said = Reason("opinions-number", numbers).words("en")
    assert said == "your 2 own models say 4.1 to 4.4; the federation's one-shot model 4.9"


def test_other_rules_keep_members_and_weights(tmp_path):
    made, place = stored(mixed()), tmp_path / "knowledge.toml"
    replace(known(), range=None).write(place)
    with pytest.raises(
        Refused, match="trained on prediction and range, the knowledge has prediction"
    ):
        update_bundle(made, place)
    deaf = stored(mixed(members=(OrderMember("r", linear(5, 1), True, True, 1.0, 3),)))
    new = update_bundle(deaf, place)
    assert member_weights(new.personal.ensemble) == member_weights(deaf.personal.ensemble)
    assert new.personal.knowledge.range is None


def test_another_trust_is_the_experts_weight():
    made = stored(mixed(expert=0.1))
    new = update_bundle(made, trust=0.4).personal
    old = made.personal
    assert new.reliance == 0.4
    assert new.ensemble.network == pytest.approx(old.ensemble.network * 0.6 / 0.9)
    assert new.ensemble.weights == pytest.approx([w * 0.6 / 0.9 for w in old.ensemble.weights])


def test_the_command_says_that_the_weights_stay(tmp_path):
    ridge = OrderMember("ridge", linear(5, 1), True, True, 1.0, 3)
    write_bundle(stored(mixed(members=(ridge,))), tmp_path / "old.lore")
    place = tmp_path / "knowledge.toml"
    replace(known(), prediction=None).write(place)
    told = run("update", tmp_path / "old.lore", place, "--out", tmp_path / "n.lore")
    assert "the weights of the ensemble stay: shared network" in told


@pytest.mark.slow
def test_trees_beyond_the_room_of_a_bundle_are_refused():
    big = OrderMember("big", trees(2, 1, count=30, depth=15), False, False, 1.0, 3)
    with pytest.raises(FedloreError, match="own members may take 20000000 bytes"):
        stored(mixed(members=(big,)))


def test_a_member_of_ones_own_code_is_refused():
    class Mine:
        def log_probs(self, known):
            return torch.zeros(len(known), 3).log_softmax(1)

    with pytest.raises(FedloreError, match="member of the class Mine: it would need your code"):
        stored(mixed(members=(Mine(),)))


def changed(change):
    """The bundle with its description and tensors changed, opened."""
    made = stored(mixed())
    header = json.loads(made.members["bundle.json"])
    tensors = unpack_tensors(made.members[ENSEMBLE])[0]
    change(header["ensemble"], tensors)
    members = {**made.members, "bundle.json": json.dumps(header).encode()}
    return open_members({**members, ENSEMBLE: pack_tensors(tensors)})


def _set(name, place, value):
    def change(ensemble, tensors):
        tensors[name].view(-1)[place] = value

    return change


def _say(key, value, member=None):
    def change(ensemble, tensors):
        (ensemble if member is None else ensemble["members"][member])[key] = value

    return change


HOSTILE = {
    "weights that sum to more": _say("network", 0.9),
    "a negative weight": _say("weight", -0.1, 0),
    "a weight that is no number": _say("weight", "much", 0),
    "a truth as a weight": _say("weight", True, 0),
    "NaN as a weight": _say("network", float("nan")),
    "no sharpness": _say("inverse_temperature", 0.0),
    "an endless sharpness": _say("inverse_temperature", float("inf")),
    "another width": _say("width", -1.0, 0),
    "another kind": _say("kind", "pickle", 0),
    "another body": _say("body", "code", 0),
    "more classes": _say("classes", 4, 0),
    "a number for classes": _say("kind", "number", 0),
    "members in no list": _say("members", {"0": {}}),
    "an unknown key": _say("module", "os"),
    "an unknown key of a member": _say("module", "os", 0),
    "rows below 1": _say("rows", 0, 6),
    "a basis without end": _say("basis", {"terms": "quadratic", "random": 10**12}, 6),
    "an unknown basis": _say("basis", {"terms": "cubic"}, 6),
    "a start of no kind": _say("start", "anywhere", 6),
    "a link of no width": _say("link", {"around": "middle", "share": 0.0}, 6),
    "a link around nothing": _say("link", {"around": "top", "share": 0.9}, 6),
    "a link that is no table": _say("link", 0.9, 6),
    "a correction of nobody": _say("corrects", "network", 0),
    "a correction that is no name": _say("corrects", ["one_shot"], 0),
    "a correction among classes": _say("corrects", "one_shot", 0),
    "two one-shot models": lambda b, t: b["members"].append(dict(b["members"][6])),
    "a member too few": lambda b, t: b["members"].pop(),
    "a member of no tensors": lambda b, t: b["members"].append(dict(b["members"][0])),
    "a tensor of nobody": lambda b, t: t.update({"evil": torch.zeros(1)}),
    "a feature that is not there": _set("own.2.feature", 0, 99),
    "a child above its parent": _set("own.2.child", 1, 0),
    "a child beyond the last node": _set("own.2.child", 0, 10**6),
    "a root beyond the last node": _set("own.2.roots", 0, 10**6),
    "an output that is not there": _set("own.5.output", 0, 7),
    "an infinite leaf": _set("own.2.values", 0, float("inf")),
    "a negative vote": _set("own.4.values", 0, -1.0),
    "a threshold that is no number": _set("own.2.threshold", 0, float("nan")),
    "a scale of 0": _set("own.0.scale", 0, 0.0),
    "a NaN among the weights": _set("own.0.weight", 0, float("nan")),
    "a negative variance": _set("one_shot.covariance", 0, -1.0),
    "no noise": _set("one_shot.noise", 0, 0.0),
    "a mean without end": _set("one_shot.mean", 0, float("inf")),
    "a spread of 0": _set("one_shot.spread", 0, 0.0),
    "a shape that does not fit": lambda b, t: t.update({"one_shot.mean": torch.zeros(3).double()}),
    "single precision": lambda b, t: t.update({"own.0.mean": t["own.0.mean"].float()}),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE)
def test_what_is_hostile_is_refused_with_a_sentence(change):
    with pytest.raises(FedloreError) as found:
        changed(change)
    assert 10 < len(str(found.value)) < 600


@pytest.mark.slow
def test_drawn_damage_never_gets_past_the_door_as_anything_but_a_sentence():
    """Random bytes of the description and of the tensors, replaced one at a time."""
    made = stored(mixed())
    draw = torch.Generator().manual_seed(5)
    x = rows(20)
    for name in ("bundle.json", ENSEMBLE):
        for _ in range(150):
            data = bytearray(made.members[name])
            data[int(torch.randint(len(data), (), generator=draw))] = int(
                torch.randint(256, (), generator=draw)
            )
            try:
                found = open_members({**made.members, name: bytes(data)})
            except FedloreError:
                continue
            p = found.personal.predict_proba(x)  # another number, still a distribution
            assert ((p.sum(1) - 1).abs() < 1e-4).all()
            assert (p[~found.personal.annotate(x).allowed] == 0).all()


def test_both_halves_of_a_mixture_must_be_there():
    made = stored(mixed())
    without = {n: d for n, d in made.members.items() if n != ENSEMBLE}
    with pytest.raises(Refused, match="belong together"):
        open_members(without)
    with pytest.raises(Refused, match="belong together"):
        open_members({**bundle().members, ENSEMBLE: made.members[ENSEMBLE]})


def test_members_stay_inside_the_range_whatever_overflows():
    huge = linear(2, 1)
    huge = replace(huge, weight=huge.weight * 1e300)
    wild = OrderMember("wild", huge, False, False, 1e-3, 3)
    model = mixed(members=(wild,), inverse_temperature=1e30, net=plain_net(2, 3))
    with torch.no_grad():
        for values in model.model.parameters():
            values.mul_(1e18)
    x = torch.cat([rows(), 1e30 * rows()])
    p = model.predict_proba(x)
    assert ((p.sum(1) - 1).abs() < 1e-5).all()
    assert (p[~model.annotate(x).allowed] == 0).all()


def test_a_plain_model_has_nothing_beside_it():
    assert personal(Knowledge(schema=SCHEMA)).ensemble is None
    assert "ensemble" not in bundle().card
