"""The primary dies under load, and Sentinels name another: what was accepted and replicated ends."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from leasemq import State
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.model import Outcome
from tests.end_to_end.place import Place
from tests.end_to_end.redis_place import place_on
from tests.end_to_end.waiting import until
from tests.servers import RedisServer, SentinelTrio

pytestmark = pytest.mark.slow

SLOTS = 10
JOBS = 300
ENDED = {Outcome.STALLED, Outcome.RELEASED, Outcome.COMPLETED}


@pytest.fixture(autouse=True)
def backend_name() -> str:
    """What these tests show promises on."""
    return "redis"


def offset(server: RedisServer) -> int:
    """How much of the stream of writes it has."""
    return int(server.info("replication")["master_repl_offset"])


def accepted_meanwhile(place: Place, until_s: float) -> list[str]:
    """Enqueue one job after the other; those that were accepted."""
    accepted = []
    for number in range(10_000):
        if time.monotonic() > until_s:
            break
        try:
            accepted.append(place.enqueue("brief", 0.01, id=f"late-{number}").id)
        except (BackendUnavailable, IndeterminateWrite):
            continue
    return accepted


@pytest.mark.calm
@pytest.mark.timeout(180)
@pytest.mark.promise("P-04", "P-12", "P-95", "P-98", "E-62")
def test_a_fail_over_loses_nothing_that_was_replicated_and_lets_nobody_end_a_job_of_anothers(
    tmp_path: Path,
) -> None:
    durable = {"appendonly": "yes"}
    with (
        SentinelTrio(tmp_path / "trio", options=durable) as trio,
        place_on(tmp_path, f"{trio.url}?timeout_ms=1000&connect_timeout_ms=500") as place,
    ):
        workers = [place.worker(name, concurrency=SLOTS, lease_s=2, is_ready=True) for name in ("A", "B")]
        queue = place.app.queue("default")
        queue.pause_sync()
        jobs = [job.id for job in place.app.tasks["brief"].enqueue_many_sync([(0.1,)] * JOBS)]
        primary, replica = trio.data
        until(lambda: offset(primary) <= offset(replica), "the replica has them all")
        queue.resume_sync()
        until(lambda: queue.counts_sync().completed > JOBS // 10, "some are completed")
        primary.kill()
        late = accepted_meanwhile(place, time.monotonic() + 4)
        until(lambda: trio.primary() is replica, "the Sentinels have agreed on another")
        after = [place.enqueue("brief", 0.01, id=f"after-{number}").id for number in range(10)]
        until(lambda: queue.counts_sync().completed >= JOBS + len(late) + len(after), "all are completed")
        primary.restart()  # the Sentinels make it a replica
        last = place.enqueue("quick", id="last").id
        place.wait_for_state(last, State.COMPLETED)

        runs = place.ledger.runs()
        records = [place.record(job) for job in (*jobs, *late, *after)]
        assert {record.state for record in records} == {State.COMPLETED}
        assert sum(runs.values()) - len(runs) <= 2 * SLOTS
        for record in records:
            outcomes = [attempt.outcome for attempt in record.history]
            assert outcomes.count(Outcome.COMPLETED) == 1
            assert set(outcomes) <= ENDED
            assert [attempt.fence for attempt in record.history] == sorted(
                {attempt.fence for attempt in record.history}
            )
        assert all(worker.is_alive for worker in workers)
        assert not any("Traceback" in worker.output for worker in workers)
