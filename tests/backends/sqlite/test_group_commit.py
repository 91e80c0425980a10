"""Requests that share a commit: none takes another along, and none is answered before it is durable."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.backends.sqlite.connection import WritingConnection
from leasemq.backends.sqlite.step import Step
from leasemq.errors import BackendUnavailable, CorruptRecord, IndeterminateWrite
from leasemq.protocol.model import Acceptance
from leasemq.testing.conformance import builders
from tests.backends.sqlite.conftest import Open, Peek


class Gate:
    """Keeps the writer's thread inside a request until it is opened, so that others gather behind it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self, step: Step) -> None:
        self.entered.set()
        assert self.open.wait(10)


async def gathered(backend: SqliteBackend, *works: Callable[[Step], object]) -> list[object]:
    """Run requests that have all gathered while another one was under way."""
    gate = Gate()
    ahead = asyncio.create_task(backend._write(gate))
    assert await asyncio.to_thread(gate.entered.wait, 10)
    behind = [asyncio.create_task(backend._write(work)) for work in works]
    await asyncio.sleep(0)  # each of them puts its request into the queue
    gate.open.set()
    await ahead
    return await asyncio.gather(*behind, return_exceptions=True)


def adding(step: Step) -> str:
    step.connection.execute("INSERT INTO leasemq_store VALUES ('added', 'x')")
    return "added"


def failing(step: Step) -> None:
    step.connection.execute("INSERT INTO leasemq_store VALUES ('failing', 'x')")
    raise CorruptRecord("planted")


def breaking(step: Step) -> None:
    step.connection.execute("INSERT INTO leasemq_store VALUES ('breaking', 'x')")
    step.connection.execute("INSERT INTO leasemq_store VALUES ('breaking', 'x')")


async def test_one_failing_request_takes_no_other_along(backend: SqliteBackend, peek: Peek) -> None:
    answers = await gathered(backend, failing, adding, breaking)

    assert isinstance(answers[0], CorruptRecord)
    assert answers[1] == "added"
    assert isinstance(answers[2], BackendUnavailable)
    assert await peek("SELECT namespace FROM leasemq_store ORDER BY namespace") == [("added",), ("leasemq",)]


@pytest.mark.promise("P-01")
async def test_requests_that_gathered_are_all_answered_after_one_commit(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[WritingConnection] = []
    commit = WritingConnection.commit
    monkeypatch.setattr(
        WritingConnection, "commit", lambda connection: (commits.append(connection), commit(connection))
    )

    answers = await gathered(backend, *[lambda step, n=n: n for n in range(50)])

    assert answers == list(range(50))
    assert len(commits) == 2


async def test_a_request_that_fails_alone_leaves_nothing(backend: SqliteBackend, peek: Peek) -> None:
    with pytest.raises(CorruptRecord):
        await backend._write(failing)
    await backend._write(adding)

    assert await peek("SELECT namespace FROM leasemq_store ORDER BY namespace") == [("added",), ("leasemq",)]


async def test_no_error_of_the_driver_leaves_the_backend(backend: SqliteBackend) -> None:
    with pytest.raises(BackendUnavailable) as failure:
        await backend._write(breaking)

    assert type(failure.value.__cause__).__module__ == "sqlite3"


async def test_cancelling_the_caller_does_not_take_the_request_back(backend: SqliteBackend) -> None:
    gate = Gate()
    ahead = asyncio.create_task(backend._write(gate))
    assert await asyncio.to_thread(gate.entered.wait, 10)
    caller = asyncio.create_task(backend.enqueue("mail", [builders.new_job("a")]))
    await asyncio.sleep(0)
    caller.cancel()
    gate.open.set()
    await ahead

    assert (await asyncio.gather(caller, return_exceptions=True))[0].__class__ is asyncio.CancelledError
    (again,) = await backend.enqueue("mail", [builders.new_job("a")])
    assert again.acceptance is Acceptance.EXISTING


async def test_more_requests_than_may_wait_are_refused_and_did_not_happen(opened: Open) -> None:
    backend = await opened(request_limit=2)
    gate = Gate()
    ahead = asyncio.create_task(backend._write(gate))
    assert await asyncio.to_thread(gate.entered.wait, 10)
    calls = [asyncio.create_task(backend.enqueue("mail", [builders.new_job(name)])) for name in "abcd"]
    await asyncio.sleep(0)
    gate.open.set()
    await ahead
    answers = await asyncio.gather(*calls, return_exceptions=True)

    refused = [answer for answer in answers if isinstance(answer, BackendUnavailable)]
    assert len(refused) == 2
    assert "larger batches" in str(refused[0])
    assert (await backend.counts("mail")).accepted == 2


async def test_reads_do_not_wait_behind_a_writer(backend: SqliteBackend) -> None:
    await backend.enqueue("mail", [builders.new_job("a")])
    gate = Gate()
    ahead = asyncio.create_task(backend._write(gate))
    assert await asyncio.to_thread(gate.entered.wait, 10)

    assert (await asyncio.wait_for(backend.counts("mail"), 5)).waiting == 1

    gate.open.set()
    await ahead


async def test_one_backend_serves_many_loops_and_threads(backend: SqliteBackend) -> None:
    def elsewhere(name: str) -> str:
        (answer,) = asyncio.run(backend.enqueue("mail", [builders.new_job(name)]))
        return answer.ref.id

    names = [f"job-{number}" for number in range(8)]
    answers = await asyncio.gather(*(asyncio.to_thread(elsewhere, name) for name in names))

    assert sorted(answers) == names
    assert (await backend.counts("mail")).waiting == 8


async def test_a_caller_whose_loop_is_gone_does_not_stop_the_writer(backend: SqliteBackend) -> None:
    gate = Gate()

    def impatient() -> None:
        with pytest.raises(TimeoutError):
            asyncio.run(asyncio.wait_for(backend._write(gate), 0.01))

    await asyncio.to_thread(impatient)
    gate.open.set()

    (answer,) = await backend.enqueue("mail", [builders.new_job("a")])
    assert answer.created


@pytest.mark.promise("P-82")
async def test_a_fault_of_ours_is_told_to_those_who_wait_and_does_not_end_the_thread(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(step: Step) -> None:
        raise MemoryError

    with monkeypatch.context() as planted:
        planted.setattr(Step, "finish", fail)
        with pytest.raises(MemoryError):
            await backend.enqueue("mail", [builders.new_job("a")])
        planted.setattr(WritingConnection, "begin", fail)
        with pytest.raises(TypeError):
            await backend.enqueue("mail", [builders.new_job("a")])

    assert (await backend.enqueue("mail", [builders.new_job("a")]))[0].created


async def test_closing_finishes_what_was_asked_for(path: Path) -> None:
    backend = SqliteBackend(path, sync="normal")
    await backend.prepare()
    call = asyncio.create_task(backend.enqueue("mail", [builders.new_job("a")]))
    await asyncio.sleep(0)
    await backend.close()

    assert (await call)[0].created


@pytest.mark.promise("P-04")
async def test_a_request_that_was_refused_is_in_no_doubt_when_the_commit_is(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, ahead = WritingConnection.commit, ["the request behind which the others gather"]

    def fail(connection: WritingConnection) -> None:
        if ahead:
            ahead.clear()
            commit(connection)
            return
        error = sqlite3.OperationalError("planted")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
        raise error

    with monkeypatch.context() as planted:
        planted.setattr(WritingConnection, "commit", fail)
        answers = await gathered(backend, adding, failing)

    assert [type(answer) for answer in answers] == [IndeterminateWrite, CorruptRecord]


@pytest.mark.promise("P-07", "P-93")
async def test_only_a_claim_is_committed_without_the_disk_and_only_by_itself(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, asked = WritingConnection.commit, list[int]()

    def note(connection: WritingConnection) -> None:
        asked.append(connection.raw.execute("PRAGMA synchronous").fetchone()[0])
        commit(connection)

    backend = await opened(sync="full")
    monkeypatch.setattr(WritingConnection, "commit", note)
    await backend.enqueue("q", [builders.new_job("a"), builders.new_job("b"), builders.new_job("c")])
    first, second = [await backend.claim("q", 1, 1_000, builders.claimant()) for _ in range(2)]
    await backend.settle("q", [builders.complete(first.leases[0])])
    gate = Gate()
    ahead = asyncio.create_task(backend._write(gate))
    assert await asyncio.to_thread(gate.entered.wait, 10)
    beside = [
        asyncio.create_task(backend.claim("q", 1, 1_000, builders.claimant())),
        asyncio.create_task(backend.settle("q", [builders.complete(second.leases[0])])),
    ]
    await asyncio.sleep(0)  # each of them puts its request into the queue
    gate.open.set()
    await asyncio.gather(ahead, *beside)

    normal, full = 1, 2  # https://sqlite.org/pragma.html#pragma_synchronous
    assert asked == [full, normal, normal, full, full, full]
