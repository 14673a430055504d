"""An overview for Prometheus; everything that can be alarmed on is there from the start."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from .overview import STATES, Overview

TRAINING = ("none", "running", "finished", "stopped", "died")


def measure(overview: Overview) -> bytes:
    """The overview in Prometheus' text format."""
    return write_measures([*_federation(overview), *_sites(overview)])


def write_measures(families: Iterable[Metric]) -> bytes:
    """Families of numbers in Prometheus' text format."""
    found = list(families)  # a registry looks at them more than once

    class Once:
        def collect(self) -> Iterable[Metric]:
            return found

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Once())
    return generate_latest(registry)


def gauge(name: str, about: str, value: float) -> Metric:
    """A number that goes up and down."""
    return GaugeMetricFamily(f"fedlore_{name}", about, value=value)


def _federation(seen: Overview) -> Iterator[Metric]:
    yield gauge("server_up", "Whether the server answers sites", float(seen.server == "up"))
    training = GaugeMetricFamily(
        "fedlore_training", "1 for the state that the training is in", labels=["state"]
    )
    for state in TRAINING:
        training.add_metric([state], float(seen.state == state))
    yield training
    yield gauge("round", "The last round that was merged", seen.round)
    yield gauge("rounds", "Rounds of the training", seen.rounds)
    yield gauge("sites_enrolled", "Sites that may take part", len(seen.sites))
    last = seen.history[-1] if seen.history else {}
    yield gauge("round_seconds", "Seconds of the last round", float(last.get("seconds", 0.0)))
    yield gauge("round_bytes", "Bytes of answers in the last round", float(last.get("bytes", 0)))
    yield gauge("round_merged", "Sites merged in the last round", float(last.get("merged", 0)))
    yield CounterMetricFamily(
        "fedlore_gate_refused", "Requests that the gate turned away", value=seen.refused
    )


def _sites(seen: Overview) -> Iterator[Metric]:
    state = GaugeMetricFamily(
        "fedlore_site_state", "1 for the state that a site is in", labels=["site", "state"]
    )
    answers = CounterMetricFamily(
        "fedlore_site_answers", "What came of the tasks of this training", labels=["site", "result"]
    )
    scores = GaugeMetricFamily(
        "fedlore_site_score", "The last score that a site reported", labels=["site", "score"]
    )
    for site in seen.sites:
        for word in STATES:
            state.add_metric([site.name, word], float(site.state == word))
        for result, count in site.counts.items():
            answers.add_metric([site.name, result], count)
        for score, value in site.scores.items():
            scores.add_metric([site.name, score], value)
    yield from (state, answers, scores)
    for name, about, values in (
        (
            "site_last_heard_timestamp_seconds",
            "When a site last gave a sign of life",
            {s.name: seen.time - s.heard for s in seen.sites if s.heard is not None},
        ),
        (
            "site_round",
            "The last round that a site answered",
            {s.name: s.round for s in seen.sites},
        ),
        (
            "site_answer_seconds",
            "How long a site took for its last answer",
            {s.name: s.seconds for s in seen.sites if s.seconds is not None},
        ),
    ):
        family = GaugeMetricFamily(f"fedlore_{name}", about, labels=["site"])
        for one, value in values.items():
            family.add_metric([one], value)
        yield family
    for name, about, counts in (
        ("requests", "Requests of a site", {s.name: s.requests for s in seen.sites}),
        ("received_bytes", "Bytes from a site", {s.name: s.received for s in seen.sites}),
        ("sent_bytes", "Bytes to a site", {s.name: s.sent for s in seen.sites}),
    ):
        counter = CounterMetricFamily(f"fedlore_site_{name}", about, labels=["site"])
        for one, count in counts.items():
            counter.add_metric([one], count)
        yield counter
