"""schemathesis against the description the service gives of itself, in this process."""

import pytest

pytest.importorskip("schemathesis")

import schemathesis
from schemathesis import engine
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events

from fedlore.bundle.monitor import open_record
from fedlore.bundle.serve import make_app

from .sites import TOKEN, crossing, grades, number

BUNDLES = {"grades": grades, "number": number, "crossing": crossing}


def findings(app, examples, token=None):
    """What schemathesis objects to, and how many answers it looked at."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    config = SchemathesisConfig.from_dict(
        {"generation": {"max-examples": examples}, "seed": 1, "headers": headers}
    )
    schema = schemathesis.openapi.from_asgi("/openapi.json", app, config=config, headers=headers)
    found, checked = [], 0
    for event in engine.from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            found.append(str(event))
        if isinstance(event, events.ScenarioFinished):
            for checks in event.recorder.checks.values():
                checked += 1
                found += [
                    f"{event.recorder.label}: {c.name}: {c.failure_info.failure}"
                    for c in checks
                    if c.failure_info
                ]
    return found, checked


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "examples", "least", "how"),
    [
        *((name, 10, 100, "open") for name in BUNDLES),
        ("grades", 10, 100, "behind a token"),
        *((name, 40, 200, "with measured rows") for name in BUNDLES),
        *((name, 500, 500, "open") for name in BUNDLES),
    ],
)
def test_schemathesis_finds_nothing(name, examples, least, how, tmp_path):
    bundle, token = BUNDLES[name](), TOKEN if "token" in how else None
    record = open_record(tmp_path / "a.monitor", bundle) if "measured" in how else None
    found, checked = findings(make_app(bundle, token=token, record=record), examples, token)
    assert found == []
    assert checked > least


@pytest.mark.slow
def test_schemathesis_would_find_a_failing_answer(monkeypatch):
    def broken(*_):
        raise RuntimeError

    monkeypatch.setattr("fedlore.bundle.serve.answer.answer_with_reasons", broken)
    monkeypatch.setattr("fedlore.bundle.serve.guard._log.exception", lambda *_: None)
    found, _ = findings(make_app(grades()), 3)
    assert any("POST /predict: not_a_server_error" in text for text in found)
