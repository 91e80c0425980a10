"""Redis goes away, comes back, answers something else, or not at all: nothing is lost, and nobody ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leasemq import BackendUnavailable, State
from leasemq.protocol.model import Outcome
from tests.end_to_end.place import QUEUE, Place
from tests.end_to_end.redis_place import DURABLE, Probed, place_on, pongs
from tests.end_to_end.waiting import never, until
from tests.servers import Proxy, RedisServer

pytestmark = pytest.mark.slow

LONG_DOWN_S = 5.0


@pytest.fixture(autouse=True)
def backend_name() -> str:
    """What these tests show promises on."""
    return "redis"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that syncs every write."""
    with RedisServer(tmp_path / "redis", appendonly=True, options=DURABLE) as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, server: RedisServer) -> Iterator[Place]:
    """Processes on it."""
    with place_on(tmp_path, server.url) as place:
        yield place


@contextmanager
def behind_a_proxy(place: Place, server: RedisServer) -> Iterator[Proxy]:
    """Let the place reach the server through a proxy, with a time-out of one second."""
    with Proxy(server.port) as proxy:
        place.use(f"redis://127.0.0.1:{proxy.port}?timeout_ms=1000&connect_timeout_ms=1000")
        yield proxy


@pytest.mark.promise("P-01", "P-03", "P-98", "B06", "E-1")
def test_an_enqueue_whose_answer_was_lost_is_stored_once(place: Place, server: RedisServer) -> None:
    with behind_a_proxy(place, server) as proxy:
        place.enqueue("quick", id="warm")
        proxy.drop_reply()
        named = place.enqueue("quick", id="inv-42")
        again = place.enqueue("quick", id="inv-42")
        proxy.drop_reply()
        unnamed = place.enqueue("quick")
        dropped = proxy.dropped
        quick = place.app.tasks["quick"]
        proxy.drop_reply()
        many = quick.enqueue_many_sync([()] * 100)

        assert (dropped, proxy.dropped) == (2, 3)
        assert not again.created
        assert place.counts().accepted == 103
        place.worker("A", concurrency=20)
        place.wait_for_completed(103)

    ids = {"warm", named.id, unnamed.id, *(job.id for job in many)}
    assert place.ledger.runs() == dict.fromkeys(ids, 1)


def enqueue_ten(place: Place) -> list[str]:
    """Ten jobs for those who idle."""
    return [place.enqueue("quick", id=f"job-{number}").id for number in range(10)]


@pytest.mark.calm
@pytest.mark.promise("P-82", "P-84", "P-98", "B13")
@pytest.mark.parametrize("down_s", [0.0, pytest.param(LONG_DOWN_S, marks=pytest.mark.long)])
def test_idle_workers_survive_a_killed_server(place: Place, server: RedisServer, down_s: float) -> None:
    workers = [Probed(place, name) for name in ("A", "B")]
    until(lambda: all(worker.is_ready() for worker in workers), "both are ready")
    server.kill()
    until(lambda: not any(worker.is_ready() for worker in workers), "none is ready")
    never(lambda: any(worker.is_ready() for worker in workers), "one is ready", for_s=down_s)
    server.restart()
    back_s = time.monotonic()
    until(lambda: all(worker.is_ready() for worker in workers), "both are ready again", within_s=2)
    enqueue_ten(place)
    place.wait_for_completed(10, within_s=5 - (time.monotonic() - back_s))

    assert list(place.ledger.runs().values()) == [1] * 10
    assert all(worker.process.is_alive for worker in workers)
    assert all(len(worker.trouble_lines) <= 20 for worker in workers)


@pytest.mark.calm
@pytest.mark.promise("P-82", "P-98", "B13")
def test_idle_workers_survive_three_flaps(place: Place, server: RedisServer) -> None:
    workers = [Probed(place, name) for name in ("A", "B")]
    for _ in range(3):
        server.kill()
        server.restart()
    until(lambda: pongs(server.port), "the server answers")
    enqueue_ten(place)
    place.wait_for_completed(10, within_s=5)

    assert list(place.ledger.runs().values()) == [1] * 10
    assert all(worker.process.is_alive for worker in workers)


@pytest.mark.calm
@pytest.mark.promise("P-82", "P-98", "B13")
def test_idle_workers_notice_connections_that_pass_nothing_on(place: Place, server: RedisServer) -> None:
    with behind_a_proxy(place, server) as proxy:
        workers = [Probed(place, name, lease_s=4) for name in ("A", "B")]
        proxy.stall("both")
        place.use(server.url)  # new connections work
        enqueue_ten(place)
        until(lambda: not any(worker.is_ready() for worker in workers), "both have noticed", within_s=5)
        proxy.cut()
        proxy.heal()
        place.wait_for_completed(10, within_s=5)

        assert list(place.ledger.runs().values()) == [1] * 10
        assert all(worker.process.is_alive for worker in workers)


@pytest.mark.promise("P-98", "E-63")
def test_a_job_that_runs_through_a_restart_is_completed_by_its_first_run(
    place: Place, server: RedisServer
) -> None:
    worker = place.worker("A", lease_s=20, is_ready=True)
    place.enqueue("gated", "gate", id="through")
    place.ledger.wait("start", "through")
    server.kill()
    server.restart()
    place.open_gate("gate")
    record = place.wait_for_state("through", State.COMPLETED)

    assert (record.attempts, record.stalls, record.refused_count) == (1, 0, 0)
    assert worker.is_alive


def fill(server: RedisServer, keys: int) -> None:
    """Give it so much to read that this takes a while."""
    server.ask("EVAL", "for n = 1, ARGV[1] do redis.call('SET', 'filler:' .. n, n) end", 0, keys)


@pytest.mark.calm
@pytest.mark.timeout(180)
@pytest.mark.promise("P-04", "P-19", "P-82", "P-98", "B15")
@pytest.mark.parametrize(
    ("keys", "read_only_s"), [(4_000, 0.0), pytest.param(20_000, 3.0, marks=pytest.mark.long)]
)
def test_a_server_that_is_a_replica_and_then_reads_its_data_in_loses_nothing(
    place: Place, server: RedisServer, keys: int, read_only_s: float
) -> None:
    fill(server, keys)
    workers = [Probed(place, name, concurrency=5, lease_s=2) for name in ("A", "B")]
    place.enqueue("gated", "gate", id="running")
    place.ledger.wait("start", "running")
    place.app.call_sync(place.app.queue(QUEUE).pause)
    jobs = ["running", *(place.enqueue("brief", 0.01).id for _ in range(100))]
    place.app.call_sync(place.app.queue(QUEUE).resume)
    server.ask("REPLICAOF", "127.0.0.1", 1)
    before = server.ask("DBSIZE")
    asked_s = time.monotonic()
    with pytest.raises(BackendUnavailable):
        place.enqueue("quick", id="refused")
    assert time.monotonic() - asked_s <= 2.5 + 1  # a busy machine's
    assert server.ask("DBSIZE") == before
    never(lambda: not all(worker.process.is_alive for worker in workers), "one ended", for_s=read_only_s)
    server.ask("REPLICAOF", "NO", "ONE")
    never(
        lambda: not all(worker.process.is_alive for worker in workers), "one ended", for_s=read_only_s * 2 / 3
    )
    server.options |= {"key-load-delay": "500", "loading-process-events-interval-bytes": "1024"}
    server.stop()
    server.restart()
    place.open_gate("gate")
    place.wait_for_completed(101)

    runs = place.ledger.runs()
    records = [place.record(job) for job in jobs]
    extra = sum(runs.values()) - 101
    cut_short = [
        attempt
        for record in records
        for attempt in record.history
        if attempt.outcome in (Outcome.STALLED, Outcome.RELEASED)
    ]
    assert sorted(runs) == sorted(jobs)
    assert 0 <= extra <= 4
    assert len(cut_short) >= extra  # what was given back before it ran was no run
    assert place.counts().dead_letters == 0
    assert all(worker.process.is_alive for worker in workers)
    assert all(len(worker.trouble_lines) <= 40 for worker in workers)


@pytest.mark.calm
@pytest.mark.promise("P-04", "P-19", "P-82", "P-98")
@pytest.mark.parametrize("frozen_s", [3.0, pytest.param(10.0, marks=pytest.mark.long)])
def test_a_server_that_is_frozen_for_longer_than_the_time_out_loses_nothing(
    place: Place, server: RedisServer, frozen_s: float
) -> None:
    place.use(f"{server.url}?timeout_ms=1000&connect_timeout_ms=1000")
    worker = place.worker("A", concurrency=20, lease_s=30, is_ready=True)
    jobs = [job.id for job in place.app.tasks["brief"].enqueue_many_sync([(0.2,)] * 300)]
    place.wait_for_completed(40)
    server.freeze()
    never(lambda: not worker.is_alive, "the worker ended", for_s=frozen_s)
    server.thaw()
    thawed_s = time.monotonic()
    done = place.counts().completed
    place.wait_for_completed(done + 21, within_s=5)  # more than were running
    assert time.monotonic() - thawed_s <= 3 + 2  # a busy machine's
    place.wait_for_completed(300)

    assert place.ledger.runs() == dict.fromkeys(jobs, 1)
    counts = place.counts()
    assert (counts.stalls, counts.releases, counts.refused) == (0, 0, 0)
    assert worker.output.count("\n") <= 40
