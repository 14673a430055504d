"""The service in this process: its answers, its doors, its limits."""

import asyncio
import logging

import pytest
import torch

from fedlore.bundle import answer_rows
from fedlore.bundle.serve import ServeLimits, make_app
from fedlore.bundle.serve.answer import DIRECT

from .asking import ask, ask_all, predict
from .sites import ROW, TOKEN, crossing, grades, number


@pytest.fixture(scope="module")
def bundle():
    return grades()


@pytest.fixture(scope="module")
def app(bundle):
    return make_app(bundle)


def test_a_row_is_answered_with_grade_range_expert_and_reason(app, bundle):
    answer = predict(app, ROW | {"heat": 1300.0, "ash": 10.0})
    assert answer.status_code == 200
    said = answer.json()
    assert (said["client"], said["fingerprint"]) == ("plant <1>", bundle.fingerprint)
    (found,) = said["answers"]
    assert found["expert"] == "I"
    assert found["trust"] == 0.3
    assert found["allowed"] == ["III", "II", "I"]
    assert found["decided"] in ("expert", "model", "both")
    assert sum(found["probabilities"].values()) == pytest.approx(1, abs=1e-5)
    assert any("heat > 1200 -> I" in line for line in found["reasons"])


def test_a_class_outside_the_range_has_probability_zero(app):
    (found,) = predict(app, ROW).json()["answers"]
    assert found["allowed"] == ["III", "II"]
    assert found["probabilities"]["I"] == 0.0
    assert any("ash > 12" in line for line in found["reasons"])


@pytest.mark.parametrize("n", [1, DIRECT, DIRECT + 1, 1000])
def test_a_batch_is_answered_in_order_and_as_the_bundle_answers(app, bundle, n):
    g = torch.Generator().manual_seed(n)
    x = torch.rand(n, 3, generator=g) * torch.tensor([20.0, 800.0, 0.0])
    x[:, 1] += 800
    rows = [{"ash": float(a), "heat": float(h), "seam": "A"} for a, h, _ in x.tolist()]
    found = predict(app, rows).json()["answers"]
    wanted = answer_rows(bundle, x)
    assert [f["predicted"] for f in found] == [
        bundle.schema.classes[i] for i in wanted.predicted.tolist()
    ]
    assert [f["in_scope"] for f in found] == wanted.in_scope.tolist()


def test_rows_outside_the_scope_are_answered_and_flagged(app):
    (found,) = predict(app, ROW | {"ash": 90}).json()["answers"]
    assert found["in_scope"] is False
    assert any(line.startswith("out of scope: ash = 90 %") for line in found["reasons"])


def test_numbers_are_served_with_the_ends_of_their_range():
    (found,) = predict(make_app(number()), {"a": 0.5, "b": 0}).json()["answers"]
    first, last = found["interval"]
    assert found["low"] <= first <= found["predicted"] <= last <= found["high"]
    assert (found["low"], found["high"], found["expert"]) == (0.0, 2.0, 1.0)
    assert 0.0 <= found["predicted"] <= 2.0


def test_a_row_on_which_the_knowledge_contradicts_itself_is_a_conflict():
    rows = [{"a": 0, "b": -1}] * 5 + [{"a": 0, "b": 1}] + [{"a": 0, "b": -1}] * 60
    answer = predict(make_app(crossing()), rows)
    assert answer.status_code == 409
    assert answer.json()["row"] == 6
    assert answer.json()["error"].startswith("row 6: the knowledge has no answer: the lower side")


@pytest.mark.parametrize(
    ("body", "column"), [(ROW | {"ash": None}, "ash"), ({"ash": 1, "heat": 2}, "seam")]
)
def test_a_wrong_row_is_422_with_its_place(app, body, column):
    answer = predict(app, [ROW, body])
    assert answer.status_code == 422
    assert (answer.json()["row"], answer.json()["column"]) == (2, column)


@pytest.mark.parametrize("name", ["\\ud800", "\\u0000", "😀" * 100])
def test_strange_names_are_refused_in_valid_json(app, name):
    body = f'{{"ash": 1, "heat": 2, "seam": "A", "{name}": 1}}'.encode()
    answer = ask(
        app, "POST", "/predict", content=body, headers={"Content-Type": "application/json"}
    )
    assert answer.status_code == 422
    assert "there is no column" in answer.json()["error"]


def test_only_json_is_taken(app):
    answer = ask(app, "POST", "/predict", content=b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status_code == 415


def test_what_is_not_there_is_said_in_one_shape(app):
    gone, wrong = ask_all(app, [("GET", "/nowhere", {}), ("GET", "/predict", {})])
    assert (gone.status_code, wrong.status_code) == (404, 405)
    assert set(gone.json()) == {"error", "row", "column"}
    assert wrong.headers["allow"] == "POST"


def test_bodies_are_limited_by_their_announced_size():
    app = make_app(grades(), limits=ServeLimits(body=200))
    answer = ask(app, "POST", "/predict", content=b" " * 201)
    assert answer.status_code == 413
    assert answer.json()["error"] == "a body may have 200 bytes, this one has more"


def test_bodies_in_pieces_are_limited_as_they_come():
    app = make_app(grades(), limits=ServeLimits(body=200))
    sent = 0

    async def endless():
        nonlocal sent
        while True:
            sent += 1
            yield b" " * 50

    answer = ask(app, "POST", "/predict", content=endless())
    assert answer.status_code == 413
    assert sent == 5  # read until it was too much, and no further


def test_a_body_that_never_ends_is_given_up():
    app = make_app(grades(), limits=ServeLimits(patience=0.01))

    async def slow():
        yield b"{"
        await asyncio.Event().wait()

    assert ask(app, "POST", "/predict", content=slow()).status_code == 408


def test_with_a_token_only_page_and_health_are_open():
    app = make_app(grades(), token=TOKEN)
    paths = ("/", "/health", "/schema", "/card", "/metrics", "/openapi.json", "/nowhere")
    codes = [a.status_code for a in ask_all(app, [("GET", path, {}) for path in paths])]
    assert codes == [200, 200, 401, 401, 401, 401, 401]
    refused = ask(app, "POST", "/predict", json=ROW)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    page = ask(app, "GET", "/").text
    assert "plant" not in page and "ash" not in page


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer {TOKEN}", 200),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        (f"Basic {TOKEN}", 401),
        (TOKEN, 401),
        ("Bearer ", 401),
    ],
)
def test_the_token_must_be_the_very_one(header, code):
    app = make_app(grades(), token=TOKEN)
    assert predict(app, ROW, headers={"Authorization": header}).status_code == code


def test_a_service_without_a_token_answers_to_its_own_names_only():
    app = make_app(grades(), hosts=("localhost", "127.0.0.1", "::1"))
    for base, code in (
        ("http://localhost:8765", 200),
        ("http://127.0.0.1", 200),
        ("http://[::1]:8765", 200),
        ("http://evil.example", 421),
        ("http://127.0.0.1.evil.example", 421),
    ):
        assert ask(app, "GET", "/health", base=base).status_code == code


def test_every_answer_carries_the_safety_headers(app):
    for path in ("/", "/health", "/nowhere"):
        headers = ask(app, "GET", path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


def test_the_page_may_load_and_run_nothing_but_itself(app):
    policy = ask(app, "GET", "/").headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy and "http" not in policy


def test_a_fault_of_ours_is_a_sentence_and_not_a_trace(bundle, monkeypatch, caplog):
    app = make_app(bundle)

    def broken(*_):
        raise RuntimeError("secret detail")

    monkeypatch.setattr("fedlore.bundle.serve.answer.answer_with_reasons", broken)
    with caplog.at_level(logging.CRITICAL, "fedlore"):
        answer = predict(app, ROW)
    assert answer.status_code == 500
    assert "secret" not in answer.text and "Traceback" not in answer.text
    text = ask(app, "GET", "/metrics").text
    assert 'fedlore_errors_total{kind="failed"} 1.0' in text


def test_measures_count_requests_rows_and_refusals():
    app = make_app(grades())
    predict(app, [ROW, ROW | {"ash": 90}])
    predict(app, {})
    ask(app, "GET", "/made/up/by/a/stranger")
    text = ask(app, "GET", "/metrics").text
    assert 'fedlore_requests_total{method="POST",path="/predict",status="200"} 1.0' in text
    assert 'fedlore_requests_total{method="POST",path="/predict",status="422"} 1.0' in text
    assert 'path="other"' in text and "stranger" not in text
    assert 'fedlore_errors_total{kind="refused"} 2.0' in text
    assert "fedlore_rows_outside_scope_total 1.0" in text
    assert 'fedlore_request_seconds_bucket{le="0.005",path="/predict"}' in text
    total = sum(
        float(line.split()[-1]) for line in text.splitlines() if "fedlore_rows_total" in line[:18]
    )
    assert total == 2.0


def test_two_services_count_for_themselves():
    one, two = make_app(grades()), make_app(grades())
    predict(one, ROW)
    assert 'path="/predict"' not in ask(two, "GET", "/metrics").text


def test_card_and_schema_tell_what_a_row_must_have(app, bundle):
    card, form = (a.json() for a in ask_all(app, [("GET", "/card", {}), ("GET", "/schema", {})]))
    assert card["metrics"] == {"ta": 0.75}
    assert card["fingerprint"] == bundle.fingerprint
    assert [f["name"] for f in form["features"]] == ["ash", "heat", "seam"]
    assert form["features"][0]["high"] == 16.0
    assert form["features"][2]["low"] is None
    assert form["classes"] == ["III", "II", "I"]


def test_a_websocket_is_closed_at_the_door(app):
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "websocket.connect"}

    asyncio.run(app({"type": "websocket", "path": "/predict", "headers": []}, receive, send))
    assert sent == [{"type": "websocket.close", "code": 1008}]


@pytest.mark.parametrize("made", [grades, number])
def test_a_change_of_one_input_brings_the_answer_that_is_named(made):
    app = make_app(made())
    row = ROW if made is grades else {"a": 0.5, "b": 0.0}
    before = ask(app, "POST", "/predict", json=row).json()["answers"][0]
    found = ask(app, "POST", "/what-if", json=row).json()
    assert found["changes"] and found["sentences"][-1].startswith("smallest change")
    for one in found["changes"]:
        changed = {**row, one["input"]: one["value"]}
        after = ask(app, "POST", "/predict", json=changed).json()["answers"][0]["predicted"]
        if made is number:  # another number is one outside the interval
            low, high = before["interval"]
            assert after == pytest.approx(one["predicted"]) and not low <= after <= high
        else:
            assert after == one["predicted"] != before["predicted"]
    assert ask(app, "POST", "/what-if", json=[row, row]).status_code == 422


def test_a_row_without_an_answer_has_no_change_either():
    refused = ask(make_app(crossing()), "POST", "/what-if", json={"a": 0.0, "b": 1.0})
    assert refused.status_code == 409
