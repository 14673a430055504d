"""/metrics, read by Prometheus' own parser."""

from prometheus_client.parser import text_string_to_metric_families

from fedlore.federation.pages.overview import STATES, Watcher, measure

from .stage import KINDS, NOW, stage


def samples(text):
    families = list(text_string_to_metric_families(text.decode()))
    assert all(family.documentation for family in families)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def test_what_is_measured_is_what_is_seen(tmp_path):
    folder = stage(tmp_path, list(KINDS))
    found = samples(measure(Watcher(folder, lambda: NOW).look()))
    assert found["fedlore_server_up", ()] == 1 and found["fedlore_round", ()] == 12
    assert found["fedlore_training", (("state", "running"),)] == 1
    for number, state in enumerate(KINDS, 1):
        site = ("site", f"plant-{number:02d}")
        words = {word: found["fedlore_site_state", (site, ("state", word))] for word in STATES}
        assert words == dict.fromkeys(STATES, 0.0) | {state: 1.0}
        assert found["fedlore_site_answers_total", (("result", "reply"), site)] == 24
        assert found["fedlore_site_received_bytes_total", (site,)] == 331_000
        assert found["fedlore_site_answer_seconds", (site,)] == 1.25
    heard = found[
        "fedlore_site_last_heard_timestamp_seconds",
        (("site", f"plant-{list(KINDS).index('lost') + 1:02d}"),),
    ]
    assert heard == NOW - 30.0


def test_a_name_with_quotes_and_lines_stays_one_label(tmp_path):
    folder = stage(tmp_path, ["sent"])
    text = (folder / "status.json").read_text().replace("plant-01", 'a\\"b\\n\\\\c')
    (folder / "status.json").write_text(text)
    found = samples(measure(Watcher(folder, lambda: NOW).look()))
    assert ("fedlore_site_round", (("site", 'a"b\n\\c'),)) in found
