"""One primary of a Cluster is away: workers go on with the other queues, and say which are missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.crc import key_slot

from leasemq.backends.redis.keys import queue_prefix
from tests.end_to_end.place import APP, COMMAND, Place
from tests.end_to_end.redis_place import place_on
from tests.end_to_end.waiting import until
from tests.servers import RedisCluster
from tests.servers.redis_cluster import SLOTS

pytestmark = pytest.mark.slow

PRIMARIES = 3
LONGEST_S = 3.0


@pytest.fixture(autouse=True)
def backend_name() -> str:
    """What these tests show promises on."""
    return "redis"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RedisCluster]:
    """One that serves the slots it still has."""
    options = {"cluster-require-full-coverage": "no", "appendonly": "yes"}
    with RedisCluster(tmp_path / "cluster", PRIMARIES, options=options) as cluster:
        yield cluster


def queues_of_each() -> list[list[str]]:
    """Two queues of each primary."""
    found: list[list[str]] = [[] for _ in range(PRIMARIES)]
    share = -(-SLOTS // PRIMARIES)
    for number in range(1_000):
        name = f"queue-{number}"
        own = found[key_slot(queue_prefix("leasemq", name)) // share]
        if len(own) < 2:
            own.append(name)
    return found


def complete_one(place: Place, queue: str, within_s: float = LONGEST_S) -> None:
    """Enqueue a job and wait for its end."""
    place.app.tasks["quick"].options(queue=queue).enqueue_sync()
    wait_for_all(place, queue, within_s)


def wait_for_all(place: Place, queue: str, within_s: float = LONGEST_S) -> None:
    """Wait until nothing is left to do there."""

    def is_done() -> bool:
        counts = place.app.queue(queue).counts_sync()
        return counts.waiting + counts.active == 0

    until(is_done, f"the jobs of {queue} are completed", within_s)


@pytest.mark.calm
@pytest.mark.timeout(180)
@pytest.mark.promise("P-82", "P-95", "P-98")
@pytest.mark.parametrize("is_frozen", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_primary_that_is_away_holds_up_only_its_own_queues(
    tmp_path: Path, cluster: RedisCluster, *, is_frozen: bool
) -> None:
    queues = queues_of_each()
    names = [queues[primary][nth] for nth in range(2) for primary in (1, 0, 2)]  # those of the one come first
    reached = [name for name in names if name not in queues[1]]
    with place_on(tmp_path, f"{cluster.url}?timeout_ms=1000&connect_timeout_ms=1000") as place:
        options = ["--concurrency", "4", "--name", "A", "--queues", ",".join(names)]
        worker = place.run("A", *COMMAND, "worker", APP, *options)
        for name in names:
            complete_one(place, name, 20)
        away = cluster.servers[1]
        away.freeze() if is_frozen else away.kill()
        until(lambda: "BackendLost" in worker.output, "the worker has noticed")
        for _ in range(3):
            for name in reached:
                complete_one(place, name)
        until(lambda: worker.output.count("QueueLost") == 2, "both queues are told")
        away.thaw() if is_frozen else away.restart()
        until(cluster.is_ready, "the cluster is whole")
        for name in names:
            complete_one(place, name, 5)
        until(lambda: "BackendBack" in worker.output, "the worker says that all are back")
        place.app.call_sync(place.app.close)
        told = worker.output
        assert (told.count("QueueLost"), told.count("QueueReached")) == (2, 2)
        assert told.count("BackendLost") == told.count("BackendBack") == 1
        assert worker.is_alive
