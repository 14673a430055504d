"""λ row by row in a knowledge file: what is refused, what a row gets, and what lint says."""

import math

import pytest
import torch

from fedlore.core.examples import Examples
from fedlore.errors import FedloreError, KnowledgeError
from fedlore.kernel.graph.knowledge import compile_knowledge
from fedlore.kernel.graph.ops import Numpy
from fedlore.kernel.knowledge import read_knowledge
from fedlore.kernel.schema import Feature, Schema
from fedlore.knowledge import Knowledge
from fedlore.knowledge.findings.checkup import check_data, check_file
from fedlore.knowledge.regions import RowRegion
from fedlore.knowledge.rowtrust import RowTrust, TrustRegion

HEAD = """classes = ["a", "b", "c"]
features = [
    {name = "ash", low = 5, high = 15, missing = "mean"},
    {name = "origin", levels = ["own", "import", "spot"], missing = "level", other = true},
]
"""
SAID = '[[predict.sources]]\nformula = "where(ash < 9, 0.5, 1.5)"\nedges = [1, 2]\n'
SCHEMA = Schema(
    (Feature("ash", low=5, high=15), Feature("origin", levels=("own", "import", "spot"))),
    ("a", "b", "c"),
)


def written(folder, trust, *, more=SAID):
    path = folder / "knowledge.toml"
    path.write_text(f"{HEAD}{trust}\n{more}")
    return path


def region(where, trust=None):
    tail = "" if trust is None else f"trust = {trust}\n"
    return f'[[trust.regions]]\nwhere = "{where}"\n{tail}'


def test_a_region_has_the_trust_that_its_owner_says(tmp_path):
    path = written(tmp_path, "[trust]\nvalue = 0.2\n" + region("origin != 'import'", 0.8))
    known = Knowledge.read(path)
    assert known.trust == known.trust_at_prediction == 0.2
    x = torch.tensor([[7.0, 0], [7, 1], [7, 2], [7, 3], [7, math.nan]])
    told = known.annotate(Examples(x)).trust
    # a level that nobody named, and a missing one, are as everywhere
    assert told.tolist()[:3:2] == [0.8, 0.8]
    assert told[[1, 3, 4]].isnan().all()


def test_what_was_learned_holds_outside_the_regions_that_say_theirs(tmp_path):
    table = '[trust]\nvalue = 0.2\nformula = "(ash - 5) / 10"\n' + region("origin == 'own'", 1)
    known = Knowledge.read(written(tmp_path, table))
    x = torch.tensor([[7.0, 0], [7, 1], [15, 2], [25, 1], [math.nan, 1], [math.nan, 0]])
    told = known.row_trust(x)
    assert told[:4].tolist() == pytest.approx([1.0, 0.2, 1.0, 1.0])
    assert told[4].isnan() and told[5] == 1.0
    # whether it is one of ours decides: unknown is the one number, whatever was learned
    assert known.row_trust(torch.tensor([[7.0, math.nan]])).isnan().all()
    # graph and certificate know it in the same order: the region's word, then what was learned
    asked = torch.cat([x, torch.tensor([[7.0, math.nan], [12.0, 0.0]])])
    files = {one.name: one.read_text() for one in tmp_path.iterdir()}
    nodes = compile_knowledge(Numpy(asked.numpy()), read_knowledge(files))
    assert nodes.trust[:, 0].tolist() == pytest.approx([1.0, 0.2, 1.0, 1.0, 0.2, 1.0, 0.2, 1.0])


def test_a_missing_value_that_does_not_decide_does_not_matter():
    rows = RowTrust(SCHEMA, (TrustRegion("origin == 'own' or ash > 9", 0.7),))
    assert rows(torch.tensor([[math.nan, 0.0]])).tolist() == [0.7]
    assert rows(torch.tensor([[math.nan, 1.0]])).isnan().all()


@pytest.mark.parametrize(
    ("trust", "said"),
    [
        (region("ash > ", 0.8), "[trust] region 1: its region cannot be read at character 7 of"),
        (region("ahs > 9", 0.8), "unknown feature 'ahs'; did you mean 'ash'?"),
        (region("origin > 'own'", 0.8), "a level is compared by its name: origin == 'own'"),
        (region("origin == 'mine'", 0.8), "unknown level 'mine'; known: import, own, spot"),
        (region("ash == 'own'", 0.8), "'own' has no meaning in a formula"),
        (region("origin == 'own", 0.8), "a level is compared by its name"),
        (region("ash", 0.8), "a region needs a comparison and this is a number"),
        (region("ash > 9", 1.3), "[trust] region 1: trust must lie in [0, 1], got 1.3"),
        (region("ash > 9", "'much'"), "trust.regions[0].trust must be a number, got 'much'"),
        ("[[trust.regions]]\ntrust = 1\n", "[trust.regions[0]] missing key 'where'"),
        ("[trust]\nvalue = 0.3\n", "[trust] needs regions or features: one number is trust = 0.3"),
        ('[trust]\nvalue = 3\nfeatures = ["ash"]', "trust must lie in [0, 1], got 3"),
        ('[trust]\nfeatures = ["ahs"]', "unknown feature 'ahs'"),
        ('[trust]\nfeatures = ["ash", "ash"]', "[trust] names the feature 'ash' twice"),
        ('[trust]\nfeatures = ["ash"]\nformula = "ash +"', "[trust] formula cannot be read at"),
        ('[trust]\nfeature = ["ash"]', "[trust] unknown key 'feature'; did you mean 'features'?"),
        (
            region("ash > 9", 0.8) + region("ash > 12", 0.2),
            "[trust] region 2: 'ash > 12' (0.2) and 'ash > 9' (0.8) disagree in the same rows, "
            "such as ash =",
        ),
        (
            region("origin != 'own'", 0.8) + region("ash > 12"),
            "'ash > 12' (learned) and 'origin != 'own'' (0.8) disagree in the same rows, such as "
            "ash =",
        ),
    ],
)
def test_a_bad_statement_is_one_sentence_with_its_place(tmp_path, trust, said):
    path = written(tmp_path, trust)
    for read in (Knowledge.read, check_file):
        with pytest.raises(FedloreError) as error:
            read(path)
        assert said in str(error.value) and "knowledge.toml" in str(error.value)


def test_regions_that_are_apart_or_agree_are_fine():
    for one, two in (
        (TrustRegion("ash > 9", 0.8), TrustRegion("ash <= 9", 0.2)),
        (TrustRegion("ash > 9", 0.8), TrustRegion("ash > 12", 0.8)),
        (TrustRegion("origin == 'own'", 0.8), TrustRegion("origin != 'own' and ash > 6")),
        # nothing lies between two levels
        (
            TrustRegion("origin != 'own' and origin != 'import'", 0.8),
            TrustRegion("origin != 'spot'", 0.1),
        ),
    ):
        assert RowTrust(SCHEMA, (one, two)).regions == (one, two)


def test_a_formula_still_knows_no_words(tmp_path):
    more = "[[predict.sources]]\nformula = \"where(origin == 'own', 0, 1)\"\nedges = [1, 2]\n"
    with pytest.raises(
        KnowledgeError, match="feature 'origin' has levels; a formula needs numbers"
    ):
        Knowledge.read(written(tmp_path, "trust = 0.3", more=more))


def test_a_region_of_levels_and_numbers_is_as_python_has_it():
    text = "(origin == 'own' and ash >= 9) or not (origin != 'spot' or ash < 7)"
    names = SCHEMA.features[1].levels
    x = torch.cartesian_prod(torch.arange(5.0, 15.0), torch.arange(3.0))
    for row, inside in zip(x.tolist(), RowRegion(text, SCHEMA).holds(x).tolist(), strict=True):
        ash, origin = row[0], names[int(row[1])]
        assert inside == ((origin == "own" and ash >= 9) or not (origin != "spot" or ash < 7))


def test_trust_that_looks_at_a_feature_with_a_shape_is_refused(tmp_path):
    shape = '[[shape.sources]]\nfeature = "ash"\neffect = "lowers"\n'
    head = f"ordered = true\n{region('ash > 9', 0.8)}"
    with pytest.raises(KnowledgeError, match="looks at 'ash', which has a shape"):
        Knowledge.read(written(tmp_path, head, more=SAID + shape))
    head = '[trust]\nfeatures = ["ash"]\n'
    with pytest.raises(KnowledgeError, match="looks at 'ash', which has a shape"):
        Knowledge.read(written(tmp_path, "ordered = true\n" + head, more=SAID + shape))
    other = "ordered = true\n" + region("origin == 'own'", 0.8)
    assert Knowledge.read(written(tmp_path, other, more=SAID + shape)).row_trust is not None


def test_lint_says_where_a_region_is_empty_or_nobody_predicts(tmp_path):
    found = check_file(written(tmp_path, region("ash > 20", 0.8), more=""))
    assert [f.kind for f in found.findings if f.kind.startswith("trust")] == [
        "trust-unused",
        "trust-empty",
    ]
    assert "no row of the scope lies where ash > 20" in str(found.findings[-1])


@pytest.mark.parametrize(("inside", "told"), [("<", False), (">=", True)])
def test_lint_says_where_the_rows_say_the_opposite(tmp_path, inside, told):
    found = check_file(
        written(tmp_path, f"[trust]\nvalue = 0.1\n{region(f'ash {inside} 10', 0.9)}")
    )
    x = torch.stack([torch.linspace(5, 15, 80), torch.zeros(80)], 1)
    said = torch.where(x[:, 0] < 9, 0, 1)
    y = torch.where(x[:, 0] < 10, said, 2)  # right below 10, wrong above
    codes = [f.kind for f in check_data(found, Examples(x, y)).findings]
    assert ("trust-data" in codes) == told


def test_why_a_row_is_trusted_so_is_said_in_words():
    rows = RowTrust(SCHEMA, (TrustRegion("origin != 'import'", 0.8),), formula="ash / 20")
    x = torch.tensor([[10.0, 0], [10, 1], [10, math.nan], [math.nan, 1]])
    assert list(map(str, rows.reasons(x, 0.2))) == [
        "trust 0.8 here, where origin != 'import'",
        "trust 0.5 here, learned by this site",
        "trust 0.2 here, as everywhere, since origin is missing",
        "trust 0.2 here, as everywhere, since ash is missing",
    ]
    assert str(rows) == "0.8 where origin != 'import'; elsewhere ash / 20 (learned)"
    assert rows.stay().formula == "" and RowTrust(SCHEMA, features=("ash",)).stay() is None


def test_regions_that_meet_are_a_fault_of_trust(tmp_path):
    with pytest.raises(KnowledgeError) as error:
        Knowledge.read(written(tmp_path, region("ash > 9", 0.8) + region("ash > 12", 0.2)))
    assert error.value.code == "trust"


def test_without_terms_there_is_nothing_to_learn_from():
    schema = Schema((Feature("a", low=0, high=9),), ("I", "II"))
    found = RowTrust(schema, (TrustRegion("a > 3", trust=0.5),))
    assert found.terms == () and found.design(torch.zeros(4, 1)).shape == (4, 0)
