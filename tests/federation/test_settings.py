"""One federation.toml: what it says is the same in one process and deployed."""

from dataclasses import fields, replace
from math import inf, nan

import pytest
import torch

from fedlore import ConfigError
from fedlore.algorithms.catalog import Method
from fedlore.engine.lore import Candidate, SearchSpace, default_space
from fedlore.engine.lore.space import MOST_FEATURES
from fedlore.experiments.sites import approaches_of
from fedlore.federation.settings import (
    Federation,
    Model,
    RunTable,
    read_deployed,
    read_federation,
)
from fedlore.federation.terms import read_terms, terms_of
from fedlore.kernel.schema import Feature, Schema
from fedlore.privacy import Dp, Privacy

SCHEMA = """
[schema]
classes = ["a", "b"]
features = [{name = "x", low = 0, high = 1}, {name = "y", low = 0, high = 1}]
"""
WIDE = """
[target]
name = "t"
lower = 0
upper = 10
bins = 5
[schema]
features = [{name = "c", levels = ["a", "b", "c", "d"]}, NAMED]
""".replace("NAMED", ", ".join(f'{{name = "x{i}", low = 0, high = 1}}' for i in range(9)))
TOP = 'name = "one"\naddress = "localhost:7000"\n'


def write(folder, more="", top=TOP, schema=SCHEMA):
    (folder / "federation.toml").write_text(top + more + schema)
    return folder / "federation.toml"


def test_a_logistic_model_that_hears_does_so_deployed_too(tmp_path):
    path = write(tmp_path, '[model]\nkind = "logistic"\nhears = true\n')
    terms = terms_of(read_deployed(tmp_path), run="x", participants=2)
    deployed = terms.recipe().model
    alone = read_federation(path).model.make(2, 2, seed=0)
    assert deployed.hears and alone.hears
    assert str(deployed) == str(alone)
    for name, p in deployed.named_parameters():
        assert torch.equal(p, dict(alone.named_parameters())[name])
    told = torch.eye(2)
    assert not torch.equal(deployed(told, told), deployed(told, told.flip(1)))


def test_rounds_have_one_default(tmp_path):
    path = write(tmp_path)
    assert read_deployed(tmp_path).rounds == read_federation(path).rounds == Federation().rounds
    assert read_deployed(tmp_path).excess == 8.0
    assert terms_of(read_deployed(tmp_path), run="x", participants=2).rounds == 20


def test_the_same_file_is_the_same_federation(tmp_path):
    path = write(tmp_path, "sample = 0.5\nquorum = 0.9\nevaluate = 2\n[run]\ntest = 0.3\n")
    assert read_deployed(tmp_path) == read_federation(path)


@pytest.mark.parametrize("missing", ["name", "address", "schema"])
def test_a_deployed_federation_needs_more_than_one_process(tmp_path, missing):
    top = "".join(line for line in TOP.splitlines(True) if not line.startswith(missing))
    path = write(tmp_path, top=top, schema="" if missing == "schema" else SCHEMA)
    read_federation(path)
    with pytest.raises(ConfigError, match=f"federation.toml: missing key '{missing}'"):
        read_deployed(tmp_path)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("quorum = 1.5\n", r"quorum must lie in \(0, 1\], got 1.5"),
        ('[algorithm]\nname = "fedagv"\n', "did you mean 'fedavg'"),
        ("[privacy]\nthreshold = 0.9\n", "belongs to secure_aggregation"),
        ("quorm = 0.5\n", "unknown key 'quorm'; did you mean 'quorum'"),
        ('[model]\nkind = "mpl"\n', "unknown model kind 'mpl'; did you mean 'mlp'"),
        ("[model]\nhidden = [0]\n", "widths of at least 1, got 0"),
        ("[model]\nsettings = {hidden = [3]}\n", "'mlp' has its keys beside kind, got 'hidden'"),
    ],
)
def test_either_way_the_same_mistakes_are_named(tmp_path, more, message):
    path = write(tmp_path, more)
    for read in (lambda: read_federation(path), lambda: read_deployed(tmp_path)):
        with pytest.raises(ConfigError, match=f"federation.toml: .*{message}"):
            read()


SHARE, POSITIVE = r"{} must lie in \(0, 1\], got {}", "{} must be positive, got {}"
ADDRESS, TIME = "{} must be host:port, got '{}'", "{} must be such as 90s, 10m or 2h, got '{}'"


@pytest.mark.parametrize(
    ("make", "key", "taken", "refused", "message"),
    [
        (Federation, "sample", [1e-9, 1.0], [0.0, 1.01, nan], SHARE),
        (Federation, "quorum", [1e-9, 1.0], [0.0, 1.01, nan], SHARE),
        (Federation, "excess", [1.01], [1.0, 0.5, nan], "{} must be above 1, got {}"),
        (Federation, "deadline", [1e-9, 1e9], [0.0, -1.0, inf], POSITIVE),
        (Federation, "largest", [1e-9, 1e9], [0.0, -1.0, inf], POSITIVE),
        (Federation, "largest_answer", [1], [0, -1], POSITIVE),
        (Federation, "rounds", [1], [0], "{} must be at least 1, got {}"),
        (Federation, "address", ["", "h:1", "[::1]:65535"], ["h", ":1", "h:0", "h:65536"], ADDRESS),
        (RunTable, "seeds", [1], [0], "{} must be at least 1, got {}"),
        (RunTable, "test", [1e-9, 0.99], [0.0, 1.0], "{} must lie between 0 and 1, got {}"),
        (RunTable, "approaches", [None, ("lore",)], [()], "{} must name at least one"),
        (
            RunTable,
            "track",
            ["", "mlflow"],
            ["mlflo"],
            "unknown {}er '{}'; did you mean 'mlflow'[?]",
        ),
        (RunTable, "time_limit", ["", "1 s", " 1.5h"], ["0s", "5", "1d", "1s1s"], TIME),
    ],
)
def test_settings_are_taken_within_their_bounds_alone(make, key, taken, refused, message):
    for value in taken:
        assert getattr(make(**{key: value}), key) == value
    for value in refused:
        with pytest.raises(ConfigError, match=f"^{message.format(key, value)}$"):
            make(**{key: value})


SCHEMAS = {
    name: Schema((Feature("x", **feature), Feature("y")), ("a", "b"), ordered=name == "ordered")
    for name, feature in {
        "plain": {},
        "ordered": {},
        "absent": {"have": False},
        "other": {"equals": "y", "by": "2 * x"},
    }.items()
}
MIXED, FIXED = SearchSpace(), SearchSpace().only(Candidate(head="shaped"))
SITES, ROWS = (Privacy(dp=Dp(4.0, 1e-5, level=level)) for level in ("site", "record"))
SHAPED = Model(lipschitz=True)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"schema": SCHEMAS["absent"]}, "have = false of 'x' belongs in the knowledge.toml"),
        ({"schema": SCHEMAS["other"]}, "another measure, as 'x', belongs in the knowledge.toml"),
        ({"task": "regression"}, r"needs a \[target\]"),
        ({"recipe": "lore", "privacy": ROWS}, 'level = "record" do not go together'),
        ({"recipe": "lore", "privacy": SITES}, "one fixed candidate, .* got none"),
        ({"recipe": "lore", "privacy": SITES, "search_space": MIXED}, "candidate, .* got 13"),
        ({"search_space": FIXED}, "head = shaped belongs to .* lipschitz = true"),
        ({"model": SHAPED, "search_space": SearchSpace().only(Candidate())}, "got 'classes'"),
        ({"model": SHAPED, "schema": SCHEMAS["plain"]}, "ordered classes and numbers"),
        (
            {"run": RunTable(metric="mae"), "search_space": SearchSpace(metric="rmse")},
            "metric is 'mae' and .* metric 'rmse': say one",
        ),
    ],
)
def test_what_does_not_go_together_is_named(said, message):
    with pytest.raises(ConfigError, match=message):
        Federation(**said)


def test_what_goes_together_is_taken():
    Federation(privacy=ROWS)
    Federation(recipe="lore", privacy=SITES, search_space=SearchSpace().only(Candidate()))
    Federation(model=SHAPED, schema=SCHEMAS["ordered"], search_space=FIXED)
    Federation(model=SHAPED, search_space=SearchSpace(metric="rmse"))
    for own, told, metric in [("", "", ""), ("mae", "", "mae"), ("", "mae", "mae")]:
        run, space = RunTable(metric=told), SearchSpace(metric=own)
        assert Federation(run=run, search_space=space).metric == metric
    assert Federation(run=RunTable(metric="mae")).metric == "mae" and not Federation().single


@pytest.mark.parametrize(
    ("said", "sites", "least"),
    [
        ({"quorum": 0.5}, 4, 2),
        ({"quorum": 0.5}, 5, 3),
        ({"quorum": 0.9}, 4, 4),
        ({"quorum": 0.01}, 4, 1),
        ({"sample": 0.5, "quorum": 1.0}, 5, 3),
        ({"sample": 0.1 + 0.2, "quorum": 1.0}, 10, 3),  # a little above 0.3
        ({"quorum": 0.1, "algorithm": Method("scaffnew")}, 4, 4),
        ({"quorum": 0.1, "privacy": Privacy(secure_aggregation=True)}, 4, 3),
        ({"privacy": Privacy(secure_aggregation=True, threshold=1.0)}, 4, 4),
    ],
)
def test_a_quorum_is_a_share_of_the_asked_sites_or_what_the_filters_need(said, sites, least):
    assert Federation(**said).least(sites) == least


def test_an_address_has_a_host_and_a_port():
    found = Federation(address="[::1]:7000")
    assert (found.host, found.port) == ("::1", 7000)


@pytest.mark.parametrize(
    ("more", "schema", "message"),
    [
        (
            'task = "classification"\n',
            WIDE,
            r"a \[target\] is a number to learn: task must be regr",
        ),
        ("", WIDE + 'classes = ["a"]\n', r"\[schema\] has classes and there is a \[target\]"),
        ('address = ""\n', SCHEMA, "address must be host:port, got ''"),
    ],
)
def test_what_a_deployed_federation_learns_is_said_once(tmp_path, more, schema, message):
    top = TOP if "address" not in more else 'name = "one"\n'
    write(tmp_path, more, top=top, schema=schema)
    with pytest.raises(ConfigError, match=f"federation.toml: {message}"):
        read_deployed(tmp_path)
    with pytest.raises(ConfigError, match="holds no federation.toml: fedlore federation init"):
        read_deployed(tmp_path / "none")


def test_a_budget_is_no_reason_to_refuse_what_is_not_run(tmp_path):
    """The default of [run] tries lore, whose trials a budget does not bear: not so deployed."""
    write(tmp_path, "[privacy]\ndp = {epsilon = 4, delta = 1e-5}\n")
    found = read_deployed(tmp_path)
    with pytest.raises(ConfigError, match="every trial of lore would spend the budget"):
        approaches_of(found)


def test_scaling_under_a_budget_needs_bounds_where_it_is_deployed(tmp_path):
    schema = SCHEMA.replace(", low = 0, high = 1", "")
    path = write(tmp_path, "[privacy]\ndp = {epsilon = 4, delta = 1e-5}\n", schema=schema)
    read_federation(path)  # there each site's own knowledge has them
    with pytest.raises(ConfigError, match="federation.toml: feature 'x' has no declared bounds"):
        read_deployed(tmp_path)


def test_a_run_in_one_process_is_not_begun_anew_for_settings_that_it_does_not_have(tmp_path):
    plain = read_federation(write(tmp_path, top='name = "one"\n', schema=""))
    full = read_federation(write(tmp_path, "quorum = 0.9\ndeadline = 3\nevaluate = 1\n"))
    assert full != plain
    assert full.without_deployment() == plain == plain.without_deployment()
    assert replace(full, rounds=3).without_deployment() != plain


def test_terms_without_a_schema_are_refused():
    with pytest.raises(ConfigError, match="'my federation' has no schema"):
        terms_of(Federation(), run="x", participants=2)


def test_there_is_one_table_for_a_model(tmp_path):
    """Every key of [model] reaches the sites, whatever is added to it."""
    write(tmp_path, '[model]\nkind = "mlp"\nhidden = [3]\nhears = true\n')
    terms = terms_of(read_deployed(tmp_path), run="x", participants=2)
    back = read_terms(terms.text()).model
    assert back == Model("mlp", (3,), True) and type(back) is Model
    changed = {f.name for f in fields(Model) if getattr(back, f.name) != getattr(Model(), f.name)}
    assert changed == {"hidden", "hears"}


def test_the_one_round_model_of_numbers_is_sized_by_encoded_columns(tmp_path):
    """Ten columns, one of four levels: products of raw columns would be 135 terms."""
    write(tmp_path, 'recipe = "lore"\n', schema=WIDE)
    terms = terms_of(read_deployed(tmp_path), run="x", participants=2)
    assert terms.features == 13
    assert terms.search_space == default_space(13, numbers=True) and terms.gram() <= MOST_FEATURES


def test_a_metric_keeps_all_else_as_usual(tmp_path):
    ordered = SCHEMA.replace("classes =", "ordered = true\nclasses =")
    more = ("", '[search_space]\nmetric = "balanced"\n')
    usual, measured = (
        read_federation(write(tmp_path, f'recipe = "lore"\n{one}', schema=ordered)).offered()
        for one in more
    )
    assert usual.one_shot is not None
    assert measured == replace(usual, metric="balanced")
    path = write(tmp_path, 'recipe = "lore"\n[run]\nmetric = "balanced"\n', schema=ordered)
    assert read_federation(path).offered() == replace(usual, metric="balanced")


def test_a_search_space_needs_a_federation_that_searches(tmp_path):
    path = write(tmp_path, "[search_space]\nfolds = 2\n")
    assert read_federation(path).offered().folds == 2  # the approach lore of a run
    with pytest.raises(ConfigError, match='belongs to recipe = "lore", got recipe = "none"'):
        read_deployed(tmp_path)
