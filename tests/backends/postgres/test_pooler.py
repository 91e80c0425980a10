"""Behind a transaction pooler with two sessions: nothing of a session can be relied on."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from leasemq.backends.postgres.looks import LOOK_MS
from leasemq.backends.postgres.settings import located
from tests.backends.postgres.bouncer import Bouncer
from tests.end_to_end.apps.work import task_of
from tests.end_to_end.place import Place
from tests.end_to_end.test_transfers import Bank
from tests.end_to_end.test_transfers import worker as transferring
from tests.end_to_end.waiting import until
from tests.servers import PostgresServer

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    """The server behind the pooler."""
    with PostgresServer(tmp_path / "server") as own:
        yield own


@pytest.fixture
def bouncer(tmp_path: Path, server: PostgresServer) -> Iterator[Bouncer]:
    """The pooler, with two sessions for everybody."""
    with Bouncer(tmp_path / "bouncer", server, connections=2) as own:
        yield own


@pytest.fixture
def place(tmp_path: Path, bouncer: Bouncer) -> Iterator[Place]:
    """Processes that reach the server through the pooler only."""
    made = Place(tmp_path, "postgres")
    made.use(bouncer.url)
    yield made
    made.close()
    for process in made.processes:
        print(f"---- {process.log.name}\n{process.output[-4000:]}")


def passes_through(place: Place, server: PostgresServer, *, workers: int, jobs: int) -> None:
    """Run jobs through the pooler, then look at what its sessions keep."""
    crew = [place.worker(f"W{n}", concurrency=4, lease_s=30, is_ready=True) for n in range(workers)]
    producer = place.program("producing", str(jobs))
    place.wait_for_completed(jobs, 90)
    assert producer.exit_code() == 0

    runs = place.ledger.runs()
    assert (len(runs), sum(runs.values())) == (jobs, jobs)
    counts = place.counts()
    assert (counts.completed, counts.stalls, counts.failed) == (jobs, 0, 0)
    for worker in crew:
        assert worker.is_alive
        assert "prepared statement" not in worker.output
        assert worker.output.count("LISTEN") == 1, "it says once that nobody can be notified"
        assert "BackendLost" not in worker.output
    with closing(psycopg.connect(server.url, autocommit=True)) as operator:
        kept = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        assert operator.execute(kept.encode()).fetchall() == [(0,)]


def picks_up(place: Place, count: int) -> float:
    """The median time from enqueue to start."""
    late_s = []
    for number in range(count):
        asked_s = place.now_s()
        job = place.enqueue("quick", id=f"late-{number}").id
        late_s.append(place.ledger.wait("start", job).at_s - asked_s)
    print(f"through the pooler: from enqueue to start {statistics.median(late_s) * 1_000:.0f} ms")
    return max(late_s)


@pytest.mark.promise("P-94", "B21")
def test_jobs_pass_through_a_transaction_pooler(place: Place, server: PostgresServer) -> None:
    passes_through(place, server, workers=2, jobs=200)
    assert picks_up(place, 5) <= LOOK_MS / 1_000 + 0.5


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.promise("P-94", "B21")
def test_a_thousand_jobs_of_eight_workers_pass_through_a_transaction_pooler(
    place: Place, server: PostgresServer
) -> None:
    passes_through(place, server, workers=8, jobs=1_000)
    assert picks_up(place, 20) <= LOOK_MS / 1_000 + 0.5


@pytest.mark.promise("P-94", "P-114", "B21")
def test_enqueues_in_the_callers_own_transactions_pass_through_a_transaction_pooler(place: Place) -> None:
    """The second session is used while somebody else has the first, whatever was prepared there."""
    quick = task_of(place.app, "quick")
    conninfo = located(place.url).conninfo
    with closing(psycopg.connect(conninfo)) as mine, closing(psycopg.connect(conninfo)) as others:
        for number in range(10):
            quick.options(session=mine, id=f"job-{number}").enqueue_sync()
            mine.commit()
        others.execute(b"SELECT 1")
        quick.options(session=mine, id="on-the-other-session").enqueue_sync()
        mine.commit()
        quick.options(session=mine, id="taken-back").enqueue_sync()
        mine.rollback()

    assert place.counts().accepted == 11


@pytest.mark.promise("P-94", "P-114", "P-11", "B21")
def test_transactions_of_jobs_pass_through_a_transaction_pooler(place: Place) -> None:
    bank = Bank(place)
    ids = bank.order(60)
    crew = [transferring(place) for _ in range(2)]
    place.wait_for_completed(60, 90)

    assert all(one.is_alive for one in crew)
    assert bank.balances() == bank.expected
    assert sorted(bank.entries()) == sorted(ids)
    assert all("prepared statement" not in one.output for one in crew)
    bank.close()


@pytest.mark.promise("P-94", "P-82", "P-98", "B21")
def test_a_restart_of_the_pooler_loses_nothing(place: Place, bouncer: Bouncer) -> None:
    worker = place.worker("A", concurrency=10, lease_s=30, is_ready=True)
    jobs = [place.enqueue("gated", "gate", id=f"job-{number}").id for number in range(10)]
    place.ledger.wait_for(lambda ledger: len(ledger.runs()) == 10, "all run")
    bouncer.restart()
    place.open_gate("gate")
    place.wait_for_completed(10)

    assert {place.record(job).attempts for job in jobs} == {1}
    until(lambda: worker.is_alive, "the worker lives")
