"""What a server can do to working processes: end their sessions, restart, crash, freeze, refuse to write."""

from __future__ import annotations

import os
import signal
import statistics
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from leasemq import State
from tests.backends.postgres.conftest import Operator, end_sessions
from tests.end_to_end.place import Place, Process
from tests.end_to_end.waiting import never, until
from tests.servers import PostgresServer

NAME = "workers"  # of their sessions
LINES = 40  # that a worker may write about one outage
TICKS = os.sysconf("SC_CLK_TCK")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PostgresServer]:
    """A server of the test's own."""
    with PostgresServer(tmp_path / "server") as own:
        yield own


@pytest.fixture
def place(tmp_path: Path, server: PostgresServer) -> Iterator[Place]:
    """Processes on that server."""
    made = Place(tmp_path, "postgres")
    made.use(f"{server.url}?application_name={NAME}")
    yield made
    made.close()
    for process in made.processes:
        print(f"---- {process.log.name}\n{process.output[-4000:]}")


def operator_of(server: PostgresServer) -> Operator:
    """A session that is not the workers'."""
    return psycopg.connect(server.url, autocommit=True)


def serves(server: PostgresServer) -> bool:
    """Whether it takes sessions and is not recovering."""
    try:
        operator_of(server).close()
    except psycopg.OperationalError:
        return False
    return True


def shut_down(server: PostgresServer) -> None:
    """End it in good order: sessions are ended, everything is on disk."""
    os.kill(server.pid, signal.SIGINT)
    until(lambda: not server.is_alive, "the server has shut down")


def is_served(operator: Operator) -> bool:
    """Whether a session is still answered."""
    try:
        operator.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def start(place: Place, worker: Process, count: int, *gates: str) -> list[str]:
    """Have so many jobs run until their gate is opened."""
    jobs = [
        place.enqueue("gated", gates[number % len(gates)], id=f"job-{number}").id for number in range(count)
    ]
    place.ledger.wait_for(lambda ledger: len(ledger.runs()) == count, f"{count} jobs run", 60)
    assert worker.is_alive
    return jobs


def is_whole(place: Place, jobs: list[str]) -> None:
    """Every job was completed by its first run, and no budget was spent."""
    records = [place.record(job) for job in jobs]
    assert {(one.state, one.attempts, one.stalls, one.failures) for one in records} == {
        (State.COMPLETED, 1, 0, 0)
    }
    assert set(place.ledger.runs().values()) == {1}


def cpu_s(process: Process) -> float:
    """The time that a process has spent on a core."""
    fields = Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def latency_s(place: Place, number: int) -> float:
    """How long a new job takes to start."""
    asked_s = place.now_s()
    job = place.enqueue("quick", id=f"late-{number}").id
    return place.ledger.wait("start", job).at_s - asked_s


def stop_amid(place: Place, server: PostgresServer, count: int, down_s: float) -> None:
    """Stop the server while so many jobs run, some of which end meanwhile."""
    worker = place.worker("A", concurrency=count, lease_s=30, is_ready=True)
    jobs = start(place, worker, count, "early", "late")
    shut_down(server)
    place.open_gate("early")
    place.ledger.wait_for(lambda ledger: len(ledger.lines("end")) == count // 2, "half of them end", 60)
    never(lambda: not worker.is_alive, "the worker ended", for_s=down_s)
    server.restart()
    back_s = place.now_s()
    place.wait_for_completed(1, 60)
    resumed_s = place.now_s() - back_s
    place.open_gate("late")
    place.wait_for_completed(count, 60)
    ended_s = place.now_s() - back_s

    is_whole(place, jobs)
    print(
        f"{count} jobs, {down_s:g} s away: ends again {resumed_s:.2f} s after its return, all {ended_s:.2f} s"
    )
    until(lambda: "BackendBack" in worker.output, "the worker says that the server is back")
    assert resumed_s < 3
    assert worker.output.count("\n") <= LINES


@pytest.mark.slow
@pytest.mark.promise("P-19", "P-82", "P-98", "P-01", "B13")
def test_a_restart_of_the_server_amid_running_jobs_loses_nothing(
    place: Place, server: PostgresServer
) -> None:
    stop_amid(place, server, 100, down_s=2)


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.promise("P-19", "P-82", "P-98", "P-01", "B13")
def test_ten_seconds_without_a_server_amid_a_thousand_running_jobs_lose_nothing(
    place: Place, server: PostgresServer
) -> None:
    stop_amid(place, server, 1_000, down_s=10)


def crash(server: PostgresServer) -> None:
    """SIGKILL one of its sessions: the server ends all of them, and recovers."""
    with closing(operator_of(server)) as operator:
        ((pid,),) = operator.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s LIMIT 1", (NAME,)
        ).fetchall()
        os.kill(pid, signal.SIGKILL)
        until(lambda: not is_served(operator), "all sessions have ended")
    until(lambda: serves(server), "the server has recovered")


@pytest.mark.slow
@pytest.mark.promise("P-19", "P-82", "P-98", "P-02")
def test_a_crash_of_one_of_the_servers_sessions_ends_all_and_loses_nothing(
    place: Place, server: PostgresServer
) -> None:
    worker = place.worker("A", concurrency=50, lease_s=30, is_ready=True)
    jobs = start(place, worker, 50, "early", "late")
    with closing(operator_of(server)) as operator:
        operator.execute("CHECKPOINT")  # no claim is so young that it would be lost
    place.open_gate("early")
    crash(server)
    place.open_gate("late")
    place.wait_for_completed(50)

    is_whole(place, jobs)
    assert worker.is_alive
    assert worker.output.count("\n") <= LINES


@pytest.mark.slow
@pytest.mark.promise("P-01", "P-11", "P-19")
def test_a_claim_that_a_crash_takes_back_leaves_its_job_ready_and_its_holder_refused(
    place: Place, server: PostgresServer
) -> None:
    with closing(operator_of(server)) as operator:  # the claim is written down by nobody else
        operator.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        operator.execute("ALTER SYSTEM SET bgwriter_delay = '10s'")
        operator.execute("SELECT pg_reload_conf()")
    worker = place.worker("A", lease_s=30, is_ready=True)
    (job,) = start(place, worker, 1, "gate")
    crash(server)
    place.open_gate("gate")
    record = place.wait_for_state(job, State.COMPLETED)

    assert (record.stalls, record.failures, record.ref.generation) == (0, 0, 1)
    assert [run.fence for run in place.ledger.starts(job)] == sorted(
        {run.fence for run in place.ledger.starts(job)}
    )
    assert len(place.ledger.starts(job)) <= 2
    assert worker.is_alive


@pytest.mark.slow
@pytest.mark.promise("P-19", "P-82", "P-98", "P-83", "B19")
def test_sessions_that_are_ended_three_times_cost_no_run_and_listening_goes_on(
    place: Place, server: PostgresServer
) -> None:
    worker = place.worker("A", concurrency=10, lease_s=10, is_ready=True)
    jobs = [place.enqueue("gated", "gate", id=f"job-{number}").id for number in range(51)]
    place.ledger.wait_for(lambda ledger: len(ledger.runs()) == 10, "the first jobs run")
    with closing(operator_of(server)) as operator:
        for _ in range(3):
            end_sessions(operator, NAME)
            never(lambda: not worker.is_alive, "the worker ended", for_s=0.5)
    place.open_gate("gate")
    place.wait_for_completed(51)

    is_whole(place, jobs)
    late_s = [latency_s(place, number) for number in range(20)]
    print(f"from enqueue to start afterwards: median {statistics.median(late_s) * 1_000:.1f} ms")
    assert statistics.median(late_s) <= 0.2


def read_only(place: Place, server: PostgresServer, for_s: float) -> None:
    """Have the server refuse every write for a while."""
    worker = place.worker("A", concurrency=20, lease_s=30, is_ready=True)
    jobs = start(place, worker, 20, "gate")
    with closing(operator_of(server)) as operator:
        operator.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        operator.execute("SELECT pg_reload_conf()")
        place.open_gate("gate")
        until(lambda: "BackendLost" in worker.output, "the worker notices")
        before_s = cpu_s(worker)
        never(lambda: not worker.is_alive, "the worker ended", for_s=for_s)
        spent_s = cpu_s(worker) - before_s
        operator.execute("SET default_transaction_read_only = off")
        operator.execute("ALTER SYSTEM RESET default_transaction_read_only")
        operator.execute("SELECT pg_reload_conf()")
    place.wait_for_completed(20, 5 if for_s > 10 else 10)

    is_whole(place, jobs)
    print(f"read-only for {for_s:g} s: {spent_s / for_s:.1%} of a core")
    assert spent_s <= 0.1 * for_s
    assert worker.output.count("\n") <= LINES


@pytest.mark.slow
@pytest.mark.promise("P-19", "P-82", "B19")
def test_a_server_that_is_read_only_for_a_while_loses_nothing(place: Place, server: PostgresServer) -> None:
    read_only(place, server, for_s=3)


@pytest.mark.long
@pytest.mark.promise("P-19", "P-82", "B19")
def test_a_server_that_is_read_only_for_twenty_seconds_loses_nothing(
    place: Place, server: PostgresServer
) -> None:
    read_only(place, server, for_s=20)


@pytest.mark.slow
@pytest.mark.promise("P-19", "P-82", "P-98")
def test_a_frozen_server_costs_time_only(place: Place, server: PostgresServer) -> None:
    worker = place.worker("A", concurrency=20, lease_s=10, is_ready=True)
    jobs = start(place, worker, 20, "gate")
    server.freeze()
    place.open_gate("gate")
    never(lambda: not worker.is_alive, "the worker ended", for_s=3)
    server.thaw()
    place.wait_for_completed(20)

    is_whole(place, jobs)


@pytest.mark.slow
@pytest.mark.promise("P-82", "B20")
def test_no_transaction_is_left_open_while_a_handler_runs(place: Place, server: PostgresServer) -> None:
    with closing(operator_of(server)) as operator:
        operator.execute("ALTER SYSTEM SET idle_in_transaction_session_timeout = '500ms'")
        operator.execute("SELECT pg_reload_conf()")
        worker = place.worker("A", lease_s=10, is_ready=True)
        jobs = start(place, worker, 1, "gate")
        idle: list[int] = []

        def sampled() -> bool:
            ((count,),) = operator.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
                " AND state LIKE 'idle in transaction%%'",
                (NAME,),
            ).fetchall()
            idle.append(int(count))
            return int(count) > 0

        never(sampled, "a session is idle in a transaction", for_s=1)
    place.open_gate("gate")
    place.wait_for_completed(1)

    assert len(idle) >= 10
    is_whole(place, jobs)
