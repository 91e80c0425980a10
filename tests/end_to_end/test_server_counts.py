"""What a worker asks of its server, by the server's own statistics."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.end_to_end.place import APP, COMMAND, Place, Process
from tests.end_to_end.redis_place import place_on
from tests.end_to_end.waiting import never, until
from tests.servers import PostgresServer, RedisServer

WATCHED_S = 180.0
IDLE_COMMANDS_PER_S = 0.2  # P-83, without schedules
OWN_WITHIN_S = 60.0


def _scripts_called(server: RedisServer) -> int:
    """How many scripts clients have asked for; what scripts run inside the server is no round trip."""
    stats = server.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("evalsha", "eval", "fcall"))


def _run_all(place: Place, jobs: int, concurrency: int, queues: int = 1) -> Process:
    names = ",".join(["default", *(f"quiet-{number}" for number in range(1, queues))])
    options = ["--concurrency", str(concurrency), "--lease", "30", "--queues", names]
    worker = place.run("w", *COMMAND, "worker", APP, *options)
    until(lambda: len(place.ledger.lines("start")) == jobs, f"{jobs} jobs have started", OWN_WITHIN_S)
    return worker


def _watch(worker: Process, for_s: float) -> None:
    never(lambda: not worker.is_alive, "the worker has ended", for_s)


@pytest.mark.slow
@pytest.mark.promise("P-80")
@pytest.mark.parametrize(("concurrency", "jobs", "trips_per_job"), [(1, 300, 2.0), (100, 3_000, 0.1)])
def test_a_full_queue_on_redis_costs_few_round_trips(
    tmp_path: Path, concurrency: int, jobs: int, trips_per_job: float
) -> None:
    with RedisServer(tmp_path) as server, place_on(tmp_path, server.url) as place:
        place.app.tasks["counted"].enqueue_many_sync([()] * jobs)
        before = _scripts_called(server)
        _run_all(place, jobs, concurrency)
        until(lambda: place.counts().completed == jobs, "all are settled")
        looked = 20  # the start of a worker, its heartbeats, and this test's own looks
        assert (_scripts_called(server) - before - looked) / jobs <= trips_per_job


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.promise("P-83")
@pytest.mark.parametrize("queues", [1, 3, 10])
def test_an_idle_worker_asks_little_of_redis(tmp_path: Path, queues: int) -> None:
    with RedisServer(tmp_path) as server, place_on(tmp_path, server.url) as place:
        place.app.tasks["counted"].enqueue_sync()
        worker = _run_all(place, 1, concurrency=10, queues=queues)
        until(lambda: place.counts().completed == 1, "it is settled")
        _watch(worker, 60)  # what follows a job, and the first sweep
        before = server.info("commandstats")
        _watch(worker, WATCHED_S)
        after = server.info("commandstats")
    sent = {
        name: after[name]["calls"] - before.get(name, {"calls": 0})["calls"]
        for name in ("cmdstat_evalsha", "cmdstat_ping", "cmdstat_eval", "cmdstat_subscribe", "cmdstat_get")
        if name in after
    }
    print(f"idle on Redis with {queues} queues: {sent} in {WATCHED_S:g} s")
    assert sum(sent.values()) / WATCHED_S <= IDLE_COMMANDS_PER_S


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.promise("P-83")
@pytest.mark.parametrize("queues", [1, 3, 10])
def test_an_idle_worker_asks_little_of_postgres(tmp_path: Path, queues: int) -> None:
    with (
        PostgresServer(tmp_path, options={"autovacuum": "off"}) as server,
        place_on(tmp_path, server.url) as place,
    ):
        place.app.tasks["counted"].enqueue_sync()
        worker = _run_all(place, 1, concurrency=10, queues=queues)
        until(lambda: place.counts().completed == 1, "it is settled")
        _watch(worker, 60)
        with psycopg.connect(server.url, autocommit=True) as watcher:
            before = _transactions(watcher)
            _watch(worker, WATCHED_S)
            sent = _transactions(watcher) - before - 1  # the look before this one
    print(f"idle on PostgreSQL with {queues} queues: {sent} transactions in {WATCHED_S:g} s")
    assert sent / WATCHED_S <= IDLE_COMMANDS_PER_S


def _transactions(watcher: psycopg.Connection) -> int:
    row = watcher.execute(
        "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return int(row[0])
