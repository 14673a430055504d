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


def test_a_column_of_lots_is_read_from_both_files_and_needed_again(tmp_path):
    place = tmp_path / "plant.lore"
    write_bundle(bundle(), place)
    x = rows(60, seed=3)
    lines = write_rows(tmp_path / "a.csv", x, labels(x))
    text = (tmp_path / "a.csv").read_text().splitlines()
    cut = [line.replace("day ", "") for line in text[1:]]
    lots = [f"lot {int(line.split(',')[0]) // 5},{line.partition(',')[2]}" for line in cut]
    (tmp_path / "a.csv").write_text("\n".join([text[0], *lots]) + "\n")
    found = monitor(place, lines, "--reference", lines, "--lot", "when")
    assert found.exit_code == 0 and "no alarm after 60 rows in 11 lots" in found.output
    assert "was begun with lots" in str(monitor(place, lines).exception)
