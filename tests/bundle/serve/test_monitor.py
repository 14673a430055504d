"""A service that takes measured rows in: as the command would, for one writer, and refused rows."""

import asyncio
import json

import httpx
import pytest
import torch
from typer.testing import CliRunner

from fedlore.bundle import write_bundle
from fedlore.bundle.monitor import lock_record, open_record
from fedlore.bundle.monitor.judge import judge_record
from fedlore.bundle.monitor.report import report_values, say_alarms
from fedlore.bundle.serve import ServeLimits, make_app
from fedlore.cli.app import app as commands
from fedlore.errors import FedloreError

from .asking import ask, ask_all
from .sites import ROW, TOKEN, crossing, grades, number

BUNDLE = grades()  # one alone: its fingerprint has the second it was made in
GOOD = {"row": ROW, "measured": "II", "day": "2026-06-01"}


def monitored(tmp_path, bundle=None, **more):
    bundle = bundle or BUNDLE
    return make_app(bundle, record=open_record(tmp_path / "a.monitor", bundle), **more)


def bring(app, body, **more):
    return ask(app, "POST", "/measured", json=body, **more)


def drawn(n, seed=0):
    """Rows as JSON; from the middle on the hot ones are III, against the expert's word."""
    draw = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 3, generator=draw) * torch.tensor([10.0, 500.0, 3.0])
    found = []
    for i, (ash, heat, seam) in enumerate(x.tolist()):
        row = {"ash": round(5 + ash, 3), "heat": round(900 + heat, 1), "seam": "ABC"[int(seam)]}
        label = "I" if row["heat"] > 1200 and i < n // 2 else "III"
        found.append({"row": row, "measured": label, "day": f"2026-06-{1 + i // 10:02}"})
    return found


def test_the_service_says_what_the_command_says_of_the_same_rows(tmp_path):
    """Digit for digit, and each takes the other's rows for rows that it has seen."""
    bundle, rows = BUNDLE, drawn(120)
    write_bundle(bundle, tmp_path / "plant.lore")
    lines = ["when,ash,heat,seam,grade"]
    lines += [",".join(map(str, (r["day"], *r["row"].values(), r["measured"]))) for r in rows]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    call = ["monitor", tmp_path / "plant.lore", tmp_path / "rows.csv", "--day", "when", "--json"]
    call = list(map(str, call))
    app = monitored(tmp_path)
    taken = [bring(app, rows[:1]), bring(app, rows[1]), bring(app, rows[2:])]
    assert [t.json() for t in taken][-1] == {"new": 118, "rows": 120}
    seen = ask(app, "GET", "/monitor").json()
    seed = open_record(tmp_path / "a.monitor", bundle).seed
    with lock_record(tmp_path / "plant.monitor", bundle):  # the same coin for equal numbers
        pass
    head, *rest = (tmp_path / "plant.monitor").read_text().splitlines()
    (tmp_path / "plant.monitor").write_text(json.dumps(json.loads(head) | {"seed": seed}) + "\n")
    done = CliRunner().invoke(commands, call)
    told = json.loads(done.output)
    assert done.exit_code == 1 and told["alarms"] and rest == []
    assert {k: seen[k] for k in ("rows", "alarm_rate", "alarms", "questions")} == {
        k: told[k] for k in ("rows", "alarm_rate", "alarms", "questions")
    }
    assert any(name.startswith("practice") for name in seen["alarms"])
    loud = next(q for q in seen["questions"] if q["alarm"])
    assert loud["since"].startswith("2026-06-") and loud["advice"]
    assert bring(app, rows[5]).json() == {"new": 0, "rows": 120}
    again = CliRunner().invoke(commands, [*call, "--record", str(tmp_path / "a.monitor")])
    assert json.loads(again.output)["new"] == 0


def test_what_is_taken_is_on_the_disk_and_a_new_service_goes_on(tmp_path):
    bundle = BUNDLE
    app = monitored(tmp_path, bundle)
    bring(app, drawn(30))
    before = ask(app, "GET", "/monitor").json()
    with open(tmp_path / "a.monitor", "ab") as file:
        file.write(b'{"row": "half')  # where a crash might cut it
    app = monitored(tmp_path, bundle)
    assert ask(app, "GET", "/monitor").json() == before
    assert bring(app, drawn(31)[30:]).json() == {"new": 1, "rows": 31}
    kept = judge_record(open_record(tmp_path / "a.monitor", bundle))
    after = ask(app, "GET", "/monitor").json()
    assert after["questions"] == report_values(kept)["questions"]
    assert after["sentences"] == say_alarms(kept)


@pytest.mark.parametrize(
    ("body", "error", "column"),
    [
        (GOOD | {"measured": "IV"}, "measured grade must be one of III, II, I, got 'IV'", "grade"),
        (GOOD | {"measured": 2}, "the measured grade must be one of III, II, I, got 2.0", "grade"),
        (GOOD | {"measured": None}, "must be one of III, II, I, got None", "grade"),
        ({"row": ROW}, "'measured' is missing", "measured"),
        ({"measured": "II"}, "'row' is missing", "row"),
        (GOOD | {"id": 3}, "unknown key 'id'; known: row, measured, day", None),
        (GOOD | {"row": ROW | {"ash": None}}, "column 'ash': the value is missing", "ash"),
        (GOOD | {"row": ROW | {"seam": "Z"}}, "must be one of A, B, C, got 'Z'", "seam"),
        (GOOD | {"day": 20260601}, "day must be text of at most 40 ASCII characters", "day"),
        (GOOD | {"day": "\x1b[2J"}, "day must be text of at most 40 ASCII characters", "day"),
        (GOOD | {"day": "1" * 41}, "day must be text of at most 40 ASCII characters", "day"),
        (GOOD | {"day": "a\n"}, "day must be text of at most 40 ASCII characters", "day"),
        (7, "must be an object with row, measured and perhaps day", None),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_used_is_a_sentence_and_nothing_is_written(
    tmp_path, body, error, column
):
    app = monitored(tmp_path)
    before = (tmp_path / "a.monitor").read_bytes()
    answer = bring(app, [GOOD, body])
    said = answer.json()
    assert (answer.status_code, said["row"], said["column"]) == (422, 2, column)
    assert error in said["error"] and "\n" not in said["error"]
    assert (tmp_path / "a.monitor").read_bytes() == before


def test_a_number_is_monitored_and_a_contradiction_is_named(tmp_path):
    app = monitored(tmp_path, number())
    rows = [{"row": {"a": 0.5, "b": i / 9}, "measured": 3.5} for i in range(9)]
    assert bring(app, rows).json() == {"new": 9, "rows": 9}
    told = ask(app, "GET", "/monitor").json()
    assert "range 1 (lower)" in told["alarms"] and "since row 1" in told["sentences"][0]
    for wrong in ("3.5", True, 1e31):
        assert bring(app, {"row": {"a": 0, "b": 0}, "measured": wrong}).status_code == 422
    (tmp_path / "b").mkdir()
    app = monitored(tmp_path / "b", crossing())
    bad = [{"row": {"a": 0, "b": b}, "measured": 0} for b in (-1, 1)]
    answer = bring(app, bad)
    assert (answer.status_code, answer.json()["row"]) == (409, 2)
    assert ask(app, "GET", "/monitor").json()["rows"] == 0


def test_the_doors_are_those_of_predict(tmp_path):
    app = monitored(tmp_path, token=TOKEN, limits=ServeLimits(body=600, rows=2))
    asked = [("POST", "/measured", {"json": GOOD}), ("GET", "/monitor", {})]
    assert [a.status_code for a in ask_all(app, asked)] == [401, 401]
    lock = {"Authorization": f"Bearer {TOKEN}"}
    assert bring(app, [GOOD] * 3, headers=lock).json()["error"] == (
        "a request may have 2 rows, this one has 3"
    )
    assert bring(app, [GOOD | {"day": "x" * 600}], headers=lock).status_code == 413
    plain = {"content": b"{}", "headers": lock | {"Content-Type": "text/plain"}}
    assert ask(app, "POST", "/measured", **plain).status_code == 415
    assert bring(app, GOOD, headers=lock).json() == {"new": 1, "rows": 1}


def test_without_a_record_there_is_nothing_to_bring_rows_to():
    app = make_app(grades())
    assert bring(app, GOOD).status_code == 404
    assert ask(app, "GET", "/schema").json()["monitored"] is False


def test_prometheus_sees_what_is_monitored(tmp_path):
    app = monitored(tmp_path)
    bring(app, drawn(120))
    text = ask(app, "GET", "/metrics").text
    assert 'fedlore_monitor_rows{site="plant <1>"} 120' in text
    alarms = [line for line in text.splitlines() if line.startswith("fedlore_monitor_alarm{")]
    assert sum(line.endswith(" 1") for line in alarms) == len(
        ask(app, "GET", "/monitor").json()["alarms"]
    )
    assert 'path="/measured"' in text


def test_requests_at_once_lose_no_row(tmp_path):
    app, rows = monitored(tmp_path), drawn(40)

    async def talk():
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            await asyncio.gather(*(client.post("/measured", json=row) for row in rows))

    asyncio.run(talk())
    assert len(set(open_record(tmp_path / "a.monitor", BUNDLE).rows)) == 40


def test_a_record_has_one_writer(tmp_path):
    bundle, place = BUNDLE, tmp_path / "a.monitor"
    with lock_record(place, bundle):
        with pytest.raises(FedloreError, match=r"a monitor that writes to .* is running"):
            with lock_record(place, bundle):
                pass
    with lock_record(place, bundle) as kept:
        assert kept.rows == []


def test_a_record_of_lots_wants_the_lot_of_each_row(tmp_path):
    record = open_record(tmp_path / "a.monitor", BUNDLE, in_lots=True)
    app = make_app(BUNDLE, record=record)
    assert bring(app, GOOD).json()["error"] == "row 1: 'lot' is missing"
    assert "lot must be text" in bring(app, GOOD | {"lot": 3}).json()["error"]
    for lot, rows in (("a", 2), ("b", 1)):
        body = [{"row": ROW, "measured": "II", "lot": lot}] * rows
        assert bring(app, body).json()["new"] == rows
    told = ask(app, "GET", "/monitor").json()
    assert (told["rows"], told["lots"], told["late"]) == (3, 1, 0)
    asked = ask(app, "GET", "/openapi.json").json()["paths"]["/measured"]["post"]["requestBody"]
    assert "lot" in asked["content"]["application/json"]["schema"]["anyOf"][0]["required"]
