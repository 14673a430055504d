"""A bundle is made and read in memory: each table is parsed once, nothing is laid out on disk."""

import tempfile
from collections import Counter

import pytest

from fedlore.answers import Bins
from fedlore.bundle import Policies, bundle_of, read_bundle, write_bundle
from fedlore.bundle.onnx.model import knowledge_files
from fedlore.bundle.store import with_policies
from fedlore.core.nets import mlp
from fedlore.knowledge.models import Knowledge
from fedlore.knowledge.sources import table
from fedlore.knowledge.tables import sheets
from fedlore.models.regressor import PersonalRegressor

from .making import SCHEMA, known, number_knowledge, personal


@pytest.fixture
def parses(monkeypatch):
    """How often sheets and tables are read from now on; temporary folders are refused."""
    counts: Counter[str] = Counter()

    def counted(module, name):
        real = getattr(module, name)

        def call(*args, **settings):
            counts[name] += 1
            return real(*args, **settings)

        monkeypatch.setattr(module, name, call)

    def refused(*args, **settings):
        raise AssertionError("no temporary folder")

    counted(table, "parse_sheet")
    counted(sheets, "examine_rules")
    monkeypatch.setattr(tempfile, "TemporaryDirectory", refused)
    return counts


def test_a_bundle_of_two_tables_parses_each_once(parses):
    model = personal()
    parses.clear()
    bundle_of(model, "plant")
    assert parses == {"parse_sheet": 2, "examine_rules": 2}


def test_reading_and_changing_one_parses_each_once(parses, tmp_path):
    write_bundle(bundle_of(personal(), "plant"), tmp_path / "plant.lore")
    parses.clear()
    bundle = read_bundle(tmp_path / "plant.lore")
    assert parses == {"parse_sheet": 2, "examine_rules": 2}
    parses.clear()
    with_policies(bundle, Policies(extra="error"))
    assert parses == {"parse_sheet": 2, "examine_rules": 2}


def test_tables_of_numbers_are_parsed_once_too(parses):
    model = PersonalRegressor(mlp(2, 4), Bins(0.0, 100.0, 4), Knowledge(*number_knowledge()))
    parses.clear()
    bundle_of(model, "plant", schema=SCHEMA)
    assert parses == {"parse_sheet": 2, "examine_rules": 2}


def test_the_files_of_knowledge_are_written_without_a_parse(parses):
    knowledge = known()
    parses.clear()
    assert sorted(knowledge_files(knowledge)) == ["knowledge.toml", "table-1.csv", "table-2.csv"]
    assert not parses
