"""Writes that the server undoes, and writes whose answer never comes: each takes effect once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from leasemq import IndeterminateWrite, Job
from tests.end_to_end.apps.work import app_on, task_of
from tests.end_to_end.place import Place
from tests.servers import PostgresServer, Proxy

pytestmark = pytest.mark.slow
MEDDLING = (  # each is one transaction, that keeps its rows for a moment
    b"UPDATE leasemq.active SET noted = noted; SELECT pg_sleep(0.01)",
    b"UPDATE leasemq.ready SET flags = flags WHERE job % 7 = 0; SELECT pg_sleep(0.01)",
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    """A server whose transactions are serializable unless they say otherwise."""
    options = {"default_transaction_isolation": "serializable"}
    with PostgresServer(tmp_path / "server", options=options) as own:
        yield own


@pytest.fixture
def place(tmp_path: Path, server: PostgresServer) -> Iterator[Place]:
    """Processes on that server, whose sessions say nothing about isolation, as behind a pooler."""
    made = Place(tmp_path, "postgres")
    made.use(f"{server.url}?notify=off")
    yield made
    made.close()
    for process in made.processes:
        print(f"---- {process.log.name}\n{process.output[-4000:]}")


@contextmanager
def meddling(server: PostgresServer) -> Iterator[None]:
    """Somebody updates rows of jobs, over and over."""
    is_over = threading.Event()

    def meddle() -> None:
        with closing(psycopg.connect(server.url, autocommit=True)) as session:
            while not is_over.is_set():
                for statement in MEDDLING:
                    with suppress(psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                        session.execute(statement)

    meddler = threading.Thread(target=meddle)
    meddler.start()
    yield
    is_over.set()
    meddler.join()


def aborted(place: Place, server: PostgresServer, *, workers: int, jobs: int) -> None:
    """Run jobs while the server undoes many of their writes."""
    brief = task_of(place.app, "brief")
    brief.enqueue_many_sync([(0.02,)] * (jobs // 2))
    crew = [place.worker(f"W{n}", concurrency=4, lease_s=30, is_ready=True) for n in range(workers)]
    with meddling(server):
        brief.enqueue_many_sync([(0.02,)] * (jobs - jobs // 2))
        place.wait_for_completed(jobs, 90)

    assert sorted(place.ledger.runs().values()) == [1] * jobs
    counts = place.counts()
    assert (counts.completed, counts.stalls, counts.failed) == (jobs, 0, 0)
    assert all(worker.is_alive for worker in crew)
    with closing(psycopg.connect(server.url, autocommit=True)) as operator:
        ((undone,),) = operator.execute(
            "SELECT xact_rollback FROM pg_stat_database WHERE datname = current_database()"
        ).fetchall()
    print(f"{jobs} jobs, {undone} transactions undone")
    assert undone >= 5, "there was something to repeat"


@pytest.mark.promise("P-04", "P-19", "B20")
def test_writes_that_a_serializable_server_undoes_are_repeated_and_run_nothing_twice(
    place: Place, server: PostgresServer
) -> None:
    aborted(place, server, workers=2, jobs=200)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.promise("P-04", "P-19", "B20")
def test_five_hundred_jobs_of_eight_workers_on_a_serializable_server_run_once(
    place: Place, server: PostgresServer
) -> None:
    aborted(place, server, workers=8, jobs=500)


def asked_again(enqueue: object) -> Job[object] | list[Job[object]]:
    """Repeat a call as long as its caller is told that it is in doubt."""
    assert callable(enqueue)
    for _ in range(5):
        with suppress(IndeterminateWrite):
            answer: Job[object] | list[Job[object]] = enqueue()
            return answer
    raise AssertionError("in doubt five times")


@pytest.mark.promise("P-03", "P-04", "B06")
def test_an_enqueue_whose_answer_is_lost_leaves_one_job(place: Place, server: PostgresServer) -> None:
    with Proxy(server.port) as proxy:
        far = app_on(server.url.replace(f":{server.port}/", f":{proxy.port}/"))
        quick = task_of(far, "quick")
        quick.options(id="warm").enqueue_sync()

        proxy.drop_reply()
        first = asked_again(lambda: quick.options(id="inv-42").enqueue_sync())
        again = quick.options(id="inv-42").enqueue_sync()
        proxy.drop_reply()
        own = asked_again(quick.enqueue_sync)
        calls = [quick.options(id=f"bulk-{number}").call() for number in range(100)]
        proxy.drop_reply()
        bulk = asked_again(lambda: quick.enqueue_many_sync(calls))
        dropped = proxy.dropped
        far.call_sync(far.close)

    assert dropped == 3
    assert isinstance(first, Job)
    assert isinstance(own, Job)
    assert isinstance(bulk, list)
    assert not again.created
    assert place.counts().accepted == 103
    place.worker("A", concurrency=4, is_ready=True)
    place.wait_for_completed(103)
    named = ["warm", "inv-42", own.id, *(job.id for job in bulk)]
    assert place.ledger.runs() == dict.fromkeys(named, 1)
