"""Metrics as values, and as Prometheus reads them."""

from __future__ import annotations

import re

import pytest

from leasemq.protocol.insight import Counts, WorkerInfo
from leasemq.protocol.metrics import exposition, measured

# https://prometheus.io/docs/instrumenting/exposition_formats/#text-format-details
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\\\|\\"|\\n)*"'
SAMPLE = re.compile(rf"({NAME})\{{({LABEL}(?:,{LABEL})*)\}} (-?[0-9.]+(?:e[+-][0-9]+)?)")
COMMENT = re.compile(rf"# (HELP|TYPE) ({NAME}) (.+)")
ODD = 'a "quoted" \\ back\\slash, {brace} 日本'


def worker(name: str = "w", **fields: object) -> WorkerInfo:
    told: dict[str, object] = {
        "worker": name,
        "incarnation": f"{name}-1",
        "host": "box",
        "pid": 1,
        "version": "1",
        "queues": ("mail",),
        "slots": 4,
        "running": 1,
        "seen_ms": 1_000,
        **fields,
    }
    return WorkerInfo(**told)  # type: ignore[arg-type]  # drawn from a dict of mixed values


def parsed(text: str) -> tuple[dict[tuple[str, str], float], dict[str, str]]:
    """Read an exposition as strictly as its format is written; answers the samples and the types."""
    assert text.endswith("\n") or not text
    samples: dict[tuple[str, str], float] = {}
    types: dict[str, str] = {}
    family, finished = "", set[str]()
    for line in text.splitlines():
        comment = COMMENT.fullmatch(line)
        if comment:
            word, name, rest = comment.groups()
            if word == "HELP":
                assert name not in finished, f"{name} is told in two places"
                finished.add(name)
                family = name
            else:
                types[name] = rest
            assert name == family
            continue
        sample = SAMPLE.fullmatch(line)
        assert sample, f"no sample: {line!r}"
        assert sample[1] == family, f"{sample[1]} among the samples of {family}"
        assert (sample[1], sample[2]) not in samples, f"told twice: {line}"
        samples[sample[1], sample[2]] = float(sample[3])
    return samples, types


COUNTS = Counts(
    queue="mail",
    scheduled=1,
    waiting=2,
    active=3,
    blocked=4,
    completed=5,
    failed=6,
    cancelled=7,
    expired=8,
    accepted=40,
    removed=4,
    refused=9,
    stalls=10,
    releases=11,
    oldest_waiting_ms=1_250,
)


@pytest.mark.promise("P-115", "E-67")
def test_every_count_is_exposed_under_its_queue_with_its_type() -> None:
    found = measured(5_000, [COUNTS], [worker()])

    samples, types = parsed(exposition(found))

    of_queue = {name: value for (name, labels), value in samples.items() if labels == 'queue="mail"'}
    assert of_queue == {
        "leasemq_dead_letters": 14,
        "leasemq_oldest_waiting_seconds": 1.25,
        "leasemq_queue_paused": 0,
        "leasemq_queue_workers": 1,
        "leasemq_jobs_accepted_total": 40,
        "leasemq_jobs_removed_total": 4,
        "leasemq_refused_writes_total": 9,
        "leasemq_stalls_total": 10,
        "leasemq_releases_total": 11,
    }
    states = {labels: value for (name, labels), value in samples.items() if name == "leasemq_jobs"}
    assert sum(states.values()) == 40 - 4
    assert states['queue="mail",state="blocked"'] == 4
    counters = {name for name, kind in types.items() if kind == "counter"}
    assert counters == {name for name in types if name.endswith("_total")}
    assert set(types.values()) == {"counter", "gauge"}


@pytest.mark.promise("P-115", "P-42")
def test_odd_names_are_escaped_in_labels() -> None:
    found = measured(0, [Counts(queue=ODD)], [worker(ODD)])

    samples, _ = parsed(exposition(found))

    escaped = ODD.replace("\\", "\\\\").replace('"', '\\"')
    assert ("leasemq_dead_letters", f'queue="{escaped}"') in samples
    assert ("leasemq_worker_slots", f'worker="{escaped}"') in samples


@pytest.mark.promise("P-115", "P-84")
def test_lives_under_one_name_are_one_series_and_a_heartbeat_is_never_from_the_future() -> None:
    lives = [worker(seen_ms=1_000), worker(incarnation="w-2", seen_ms=6_000, running=2)]
    found = measured(5_000, [], lives)

    samples, _ = parsed(exposition(found))

    assert [one.heartbeat_age_ms for one in found.workers] == [4_000, 0]
    assert samples == {
        ("leasemq_worker_slots", 'worker="w"'): 8,
        ("leasemq_worker_running", 'worker="w"'): 3,
        ("leasemq_worker_heartbeat_age_seconds", 'worker="w"'): 4,
    }


@pytest.mark.promise("P-115")
def test_a_queue_that_nobody_works_on_says_so() -> None:
    found = measured(0, [Counts(queue="mail"), Counts(queue="other")], [worker()])

    samples, _ = parsed(exposition(found))

    workers = {labels: value for (name, labels), value in samples.items() if name == "leasemq_queue_workers"}
    assert workers == {'queue="mail"': 1, 'queue="other"': 0}
