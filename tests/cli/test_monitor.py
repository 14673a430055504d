"""fedlore monitor on the command line: exit codes, files, and what stops it."""

import json

from typer.testing import CliRunner

from fedlore.bundle import write_bundle
from fedlore.cli.app import app

from ..bundle.making import bundle, rows
from ..bundle.test_monitor import labels


def write_rows(path, x, y):
    lines = ["when,ash,s,grade"]
    for i, (row, label) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        lines.append(f"day {i},{row[0]},{row[1]},{'ABC'[label]}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def monitor(*said):
    return CliRunner().invoke(app, ["monitor", *map(str, said)])


def test_it_is_quiet_then_names_the_rule_and_ends_with_1(tmp_path):
    place = tmp_path / "plant.lore"
    write_bundle(bundle(), place)
    x = rows(200, seed=3)
    before = write_rows(tmp_path / "before.csv", x, labels(x, right=0.95))
    quiet = write_rows(tmp_path / "a.csv", x[:60], labels(x[:60], right=0.95))
    found = monitor(place, quiet, "--reference", before, "--day", "when")
    assert found.exit_code == 0 and "no alarm after 60 rows" in found.output
    loud = write_rows(tmp_path / "b.csv", x, labels(x, right=0.4))
    files = "--page", tmp_path / "w.html", "--metrics", tmp_path / "w.prom"
    found = monitor(place, loud, "--day", "when", "--json", *files)
    told = json.loads(found.output)
    assert found.exit_code == 1 and any("high ash" in name for name in told["alarms"])
    assert (tmp_path / "plant.monitor").exists() and (tmp_path / "w.html").exists()
    assert "fedlore_monitor_alarm" in (tmp_path / "w.prom").read_text()
    assert monitor(place, loud, "--reference", before).exit_code != 0  # the claims stand already
