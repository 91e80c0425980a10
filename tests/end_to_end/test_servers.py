"""A server that goes away under many jobs, or whose answers are lost: what that costs on each backend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.end_to_end.apps.work import task_of
from tests.end_to_end.place import Place
from tests.end_to_end.waiting import never
from tests.servers import PostgresServer, Proxy, RedisCluster, RedisServer

pytestmark = pytest.mark.on_servers

RESUMED_WITHIN_S = 3.0
LOG_LINES = 40
LOST_EVERY = 10
SLOTS, CHUNK = 10, 20  # so few at once that there are many requests


class Site:
    """A server of the test's own, and a proxy before each of its ports. Owner: the test."""

    def __init__(self, backend_name: str, folder: Path, stack: ExitStack) -> None:
        self._stack = stack
        self.proxies: list[Proxy] = []
        self.server: PostgresServer | RedisServer | RedisCluster
        if backend_name == "postgres":
            self.server = stack.enter_context(PostgresServer(folder))
        elif backend_name == "redis":
            self.server = stack.enter_context(RedisServer(folder, appendonly=True))
        else:
            self.server = self._cluster(folder)

    def _cluster(self, folder: Path) -> RedisCluster:
        """A cluster whose nodes name the proxies' ports to whoever asks where a slot is."""
        cluster = RedisCluster(folder, options={"appendonly": "yes"})
        for node in cluster.servers:
            proxy = self._stack.enter_context(Proxy(node.port))
            self.proxies.append(proxy)
            node.options |= {
                "cluster-announce-ip": "127.0.0.1",
                "cluster-announce-port": str(proxy.port),
                "cluster-announce-bus-port": node.options["cluster-port"],
            }
        return self._stack.enter_context(cluster)

    @property
    def url(self) -> str:
        """Past the proxies; in a Cluster only the first request is."""
        return self.server.url

    @property
    def url_by_proxy(self) -> str:
        """Through a proxy."""
        if not self.proxies:
            self.proxies.append(self._stack.enter_context(Proxy(self.server.port)))
        by_proxy = self.url
        if not isinstance(self.server, RedisCluster):
            by_proxy = by_proxy.replace(f":{self.server.port}", f":{self.proxies[0].port}")
        return by_proxy


@pytest.fixture
def site(backend_name: str, tmp_path: Path) -> Iterator[Site]:
    """The test's own server."""
    with ExitStack() as stack:
        yield Site(backend_name, tmp_path / "server", stack)


@pytest.fixture
def place(site: Site, place_of_no_server: Place) -> Place:
    """The place, on the test's own server."""
    place_of_no_server.use(site.url)
    return place_of_no_server


def stop_amid(place: Place, site: Site, jobs: int, away_s: float) -> None:
    """Stop the server while so many jobs run; a part of them ends while it is away."""
    early = jobs // 4
    workers = [place.worker(name, concurrency=jobs // 2, lease_s=30) for name in ("A", "B")]
    for number in range(jobs):
        place.enqueue("together", "early" if number < early else "late", id=f"job-{number}")
    place.ledger.wait_for(lambda ledger: len(ledger.runs()) == jobs, "all jobs run")
    site.server.stop()
    place.open_gate("early")
    place.ledger.wait_for(lambda ledger: len(ledger.lines("end")) == early, "some end while it is away")
    never(lambda: not all(worker.is_alive for worker in workers), "a worker ended", for_s=away_s)
    site.server.restart()
    back_at_s = place.now_s()
    place.wait_for_completed(early, within_s=30)
    resumed_s = place.now_s() - back_at_s
    place.enqueue("quick", id="newcomer")
    place.open_gate("late")
    place.wait_for_completed(jobs + 1)

    counts = place.counts()
    print(f"{place.backend_name}: {jobs:,} jobs, away {away_s:g} s, resumed after {resumed_s:.2f} s")
    assert all(worker.is_alive for worker in workers)
    assert resumed_s <= RESUMED_WITHIN_S
    assert (counts.accepted, counts.completed, counts.stalls) == (jobs + 1, jobs + 1, 0)
    again = {job: place.record(job).history for job, count in place.ledger.runs().items() if count != 1}
    assert again == {}
    assert len(place.ledger.lines("end")) == jobs
    assert max(worker.output.count("\n") for worker in workers) <= LOG_LINES


def lose_replies(place: Place, site: Site, jobs: int) -> None:
    """Produce and run so many jobs while every tenth answer is lost after it was sent."""
    place.use(site.url_by_proxy)
    workers = [place.worker(name, concurrency=SLOTS, lease_s=30, is_ready=True) for name in ("A", "B")]
    place.counts()
    for proxy in site.proxies:
        proxy.drop_every(LOST_EVERY)
    counted = task_of(place.app, "counted")
    for _ in range(jobs // CHUNK):
        counted.enqueue_many_sync([()] * CHUNK)
    place.ledger.wait_for(lambda ledger: len(ledger.runs()) >= jobs, "all jobs have run", within_s=200)
    for proxy in site.proxies:
        proxy.heal()
    place.wait_for_completed(jobs)

    counts = place.counts()
    dropped = sum(proxy.dropped for proxy in site.proxies)
    print(f"{place.backend_name}: {jobs:,} jobs, {dropped:,} answers lost")
    assert dropped >= jobs // CHUNK // LOST_EVERY
    assert all(worker.is_alive for worker in workers)
    assert (counts.accepted, counts.completed, counts.failed, counts.stalls) == (jobs, jobs, 0, 0)
    assert counts.releases == 0
    assert list(place.ledger.runs().values()) == [1] * jobs


@pytest.mark.slow
@pytest.mark.promise("P-01", "P-16", "P-19", "P-82", "P-98", "B14", "B20")
def test_a_server_that_is_away_for_two_seconds_costs_no_run_and_no_completion(
    place: Place, site: Site
) -> None:
    stop_amid(place, site, jobs=100, away_s=2)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.promise("P-01", "P-16", "P-19", "P-82", "P-98", "B14", "B20")
def test_a_server_that_is_away_for_ten_seconds_amid_a_thousand_jobs_costs_none(
    place: Place, site: Site
) -> None:
    stop_amid(place, site, jobs=1_000, away_s=10)


@pytest.mark.slow
@pytest.mark.promise("P-01", "P-03", "P-19", "P-98", "B06")
def test_a_thousand_jobs_run_once_though_every_tenth_answer_is_lost(place: Place, site: Site) -> None:
    lose_replies(place, site, jobs=1_000)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.promise("P-01", "P-03", "P-19", "P-98", "B06")
def test_twenty_thousand_jobs_run_once_though_every_tenth_answer_is_lost(place: Place, site: Site) -> None:
    lose_replies(place, site, jobs=20_000)
