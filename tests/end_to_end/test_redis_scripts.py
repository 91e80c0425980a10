"""Scripts that are forgotten under load, queues with odd names on a Cluster, and a user with few rights."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis
from redis.crc import key_slot

from leasemq import State
from leasemq.backends.redis.keys import queue_prefix
from tests.end_to_end.place import COMMAND, ROOT, Place
from tests.end_to_end.redis_place import place_on
from tests.end_to_end.waiting import until
from tests.servers import RedisCluster, RedisServer

pytestmark = pytest.mark.slow

FLUSH_EVERY_S = 0.05
NAMES = ["mail", "sms", "push", "{mail}", "a{b}c", "{}x"]
TROUBLE = re.compile("CROSSSLOT|NOPERM|NOSCRIPT|Traceback")


@pytest.fixture(autouse=True)
def backend_name() -> str:
    """What these tests show promises on."""
    return "redis"


@contextmanager
def flushed(server: RedisServer) -> Iterator[None]:
    """Empty the script cache again and again meanwhile."""
    over = threading.Event()

    def flush() -> None:
        with redis.Redis(port=server.port) as client:
            while not over.wait(FLUSH_EVERY_S):
                client.script_flush()

    thread = threading.Thread(target=flush)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.promise("P-95", "P-08", "B14", "E-59")
def test_a_script_cache_that_is_emptied_all_the_time_is_noticed_by_nobody(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis") as server, place_on(tmp_path, server.url) as place:
        workers = [place.worker(name, concurrency=5, lease_s=10) for name in ("A", "B", "C", "D")]
        with flushed(server):
            place.app.tasks["counted"].enqueue_many_sync([()] * 250)
            for _ in range(50):
                place.app.tasks["counted"].enqueue_many_sync([()] * 5)
            place.wait_for_completed(500)

        counts = place.counts()
        assert (counts.accepted, counts.completed, counts.stalls) == (500, 500, 0)
        assert list(place.ledger.runs().values()) == [1] * 500
        assert all(worker.is_alive for worker in workers)
        assert not any(TROUBLE.search(worker.output) for worker in workers)
        assert not any("BackendLost" in worker.output for worker in workers)
        assert server.info("commandstats")["cmdstat_script|load"]["calls"] > 10


def every_key(cluster: RedisCluster) -> list[bytes]:
    """All keys of all nodes."""
    found = []
    for server in cluster.servers:
        with redis.Redis(port=server.port) as client:
            found += list(client.scan_iter(match="leasemq:*", count=1_000))
    return found


def rights(text: str) -> list[str]:
    """The rules of the worker's user that docs/redis.md lists."""
    block = re.search(r"ACL SETUSER leasemq on >\S+ (.*?)\n```", text, re.DOTALL)
    assert block is not None
    return block[1].replace("\\\n", " ").split()


@pytest.mark.timeout(180)
@pytest.mark.promise("P-95", "B17", "E-69")
def test_queues_of_any_name_keep_to_one_slot_and_to_the_rights_in_the_docs(tmp_path: Path) -> None:
    rules = rights((ROOT / "docs/redis.md").read_text(encoding="utf-8"))
    with RedisCluster(tmp_path / "cluster") as cluster:
        for server in cluster.servers:
            server.ask("ACL", "SETUSER", "leasemq", "on", ">word", *rules)
        url = cluster.url.replace("://", "://leasemq:word@")
        with place_on(tmp_path, url) as place:
            worker = place.run(
                "A", *COMMAND, "worker", "tests.end_to_end.apps.serving:app", "--concurrency", "20",
                "--queues", ",".join(NAMES),
            )  # fmt: skip
            use(place)
            until(lambda: all(completed(place, name) >= 52 for name in NAMES), "all jobs are completed")
            runs = place.ledger.runs()

        slots = {name: {key_slot(key) for key in mine(every_key(cluster), name)} for name in NAMES}
        assert [len(found) for found in slots.values()] == [1] * len(NAMES)
        assert len(slots["mail"] | slots["sms"] | slots["push"]) > 1
        assert not TROUBLE.search(worker.output)
        assert sum(count for job, count in runs.items() if job.startswith("plain")) == 300
        refused = {entry[b"object"] for server in cluster.servers for entry in server.ask("ACL", "LOG")}
        assert refused <= {b"config|get"}  # asked for at start, and done without


def use(place: Place) -> None:
    """Enqueue, delay, retry, fail, cancel, pause and purge in each queue."""
    for name in NAMES:
        queue = place.app.queue(name)
        queue.pause_sync()
        for number in range(50):
            place.enqueue("quick", id=f"plain-{name}-{number}", queue=name)
        place.enqueue("quick", id=f"later-{name}", queue=name, delay=0.2)
        place.enqueue("first_fails", id=f"retried-{name}", queue=name)
        place.enqueue("odd_async", "ValueError", id=f"failed-{name}", queue=name)
        cancelled = place.enqueue("quick", id=f"cancelled-{name}", queue=name)
        cancelled.cancel_sync()
        queue.resume_sync()
    for queue in map(place.app.queue, NAMES):
        until(lambda queue=queue: queue.counts_sync().failed == 1, "one has failed")
        assert queue.purge_sync([State.FAILED]) == 1


def completed(place: Place, name: str) -> int:
    """How many jobs of a queue are."""
    return place.app.queue(name).counts_sync().completed


def mine(keys: list[bytes], name: str) -> list[bytes]:
    """The keys of one queue."""
    found = [key for key in keys if key.startswith(queue_prefix("leasemq", name))]
    assert found
    return found
