"""A function's own transaction: its rows and the end of its job are there together, or neither is."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from leasemq import Ctx, Retry
from leasemq.backends.postgres.settings import located
from leasemq.client.schemes import open_backend
from leasemq.errors import (
    BackendUnavailable,
    IllegalMove,
    IndeterminateWrite,
    JobCancelled,
    LeaseLost,
    Unsupported,
    WouldDeadlock,
)
from leasemq.events import EndIgnored, JobEnded, LeaseWasLost
from leasemq.protocol.decide import Interrupted, decide
from leasemq.protocol.failure import decode_error
from leasemq.protocol.insight import EventKind, JobRecord
from leasemq.protocol.model import Outcome, Settled, State
from tests.end_to_end.apps.transfers import table
from tests.servers.stores import SERVED, chosen, served_store
from tests.worker.stage import QUEUE, Process, Stage, perform_in_real_time, real_stage_on

pytestmark = pytest.mark.promise("P-114")

Play = Callable[[Stage], Coroutine[Any, Any, None]]


class Bank:
    """The test's own table in the jobs' database. Owned by the test."""

    def __init__(self, backend_name: str, folder: Path) -> None:
        self._served = served_store(backend_name) if backend_name in SERVED else None
        self._file = folder / "jobs.db"
        self.url = f"sqlite:///{self._file}?sync=normal" if self._served is None else self._served.url
        self.table = table(self.url, "entry")
        mark = "?" if self._served is None else "%s"
        self.entry = f"insert into {self.table} values ({mark}, {mark})"  # noqa: S608  own names

    def connected(self) -> Any:
        """A connection of somebody else's, who closes it."""
        if self._served is None:
            return closing(sqlite3.connect(self._file))
        return closing(psycopg.connect(located(self.url).conninfo))

    def open(self) -> None:
        """Make the table."""
        with self.connected() as connection:
            connection.execute(f"create table {self.table} (job text, attempt integer)")
            connection.commit()

    async def entries(self) -> list[tuple[str, int]]:
        """What is committed."""
        return await asyncio.to_thread(self._entries)

    def _entries(self) -> list[tuple[str, int]]:
        with self.connected() as connection:
            found: list[tuple[str, int]] = connection.execute(f"select * from {self.table}").fetchall()  # noqa: S608  own names
            return found

    def close(self) -> None:
        """Take it away."""
        if self._served is not None:
            self._served.drop()


AT_ONCE = Retry(1, delays=(0,))
NOWHERE = "insert into nowhere values (1)"
NOT_YOURS = (sqlite3.ProgrammingError, psycopg.ProgrammingError)
NO_TABLE = (sqlite3.OperationalError, psycopg.errors.UndefinedTable)


@pytest.fixture(params=[name for name in ("sqlite", "postgres") if name in ("sqlite", *chosen())])
def backend_name(request: pytest.FixtureRequest) -> str:
    """The backends with transactions that this run asks; SQLite always."""
    return str(request.param)


@pytest.fixture
def bank(backend_name: str, tmp_path: Path) -> Iterator[Bank]:
    bank = Bank(backend_name, tmp_path)
    yield bank
    bank.close()


def on_each(play: Play, bank: Bank) -> None:
    """Run a play in real time, on a database that has the bank's table."""
    backend = open_backend(bank.url)

    async def main() -> None:
        async with real_stage_on(backend) as stage:
            await asyncio.to_thread(bank.open)
            await play(stage)

    asyncio.run(main())


async def ended(stage: Stage, task: str, **fields: Any) -> tuple[JobRecord, Process]:
    """Enqueue one job, run a worker until it has ended, and stop the worker."""
    settings = {name: fields.pop(name) for name in ("lease_ms", "heartbeat_ms") if name in fields}
    process = stage.processes[0] if stage.processes else stage.process(**settings)
    job = await stage.enqueue(task, **fields)
    process.task = stage.spawn(process.worker.run())
    await stage.until_ended(job)
    await process.stop()
    return await stage.job(job), process


def reason(record: JobRecord) -> str:
    """What a failed job failed with."""
    assert record.error is not None, record
    return decode_error(record.error).type.rpartition(".")[2]


@pytest.mark.promise("P-11", "P-64")
def test_the_rows_and_the_end_are_there_together_and_the_end_is_settled_one_time(bank: Bank) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> int:
            async with ctx.transaction() as connection:
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
                ctx.complete(7)
            return 7

        stage.task("work", work)
        record, process = await ended(stage, "work")

        assert record.state is State.COMPLETED
        assert record.result == stage.routines["work"].signature.encode_result(7)
        assert await bank.entries() == [(record.ref.id, 1)]
        assert (record.attempts, record.refused_count, process.wire.calls["settle"]) == (1, 0, 0)
        assert [event.outcome for event in process.events(JobEnded)] == [Outcome.COMPLETED]
        assert not process.events(EndIgnored)
        events = (await stage.backend.events(QUEUE, "", 10)).events
        assert [event.kind for event in events][-1] is EventKind.COMPLETED

    on_each(play, bank)


def test_a_function_in_a_thread_has_its_twin(bank: Bank) -> None:
    async def play(stage: Stage) -> None:
        def work(ctx: Ctx) -> None:
            with ctx.transaction_sync() as connection:
                connection.execute(bank.entry, (ctx.job_id, ctx.attempt))

        stage.task("work", work)
        record, process = await ended(stage, "work")

        assert record.state is State.COMPLETED
        assert await bank.entries() == [(record.ref.id, 1)]
        assert (record.refused_count, process.wire.calls["settle"]) == (0, 0)

    on_each(play, bank)


@pytest.mark.promise("P-20")
@pytest.mark.parametrize("is_async", [True, False])
def test_an_error_in_the_block_undoes_its_rows_and_is_an_ordinary_failure(bank: Bank, is_async: bool) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            async with ctx.transaction() as connection:
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
                if ctx.attempt == 1:
                    raise ValueError("no")

        def work_in_a_thread(ctx: Ctx) -> None:
            with ctx.transaction_sync() as connection:
                connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
                if ctx.attempt == 1:
                    raise ValueError("no")

        stage.task("work", work if is_async else work_in_a_thread, retry=AT_ONCE)
        record, _ = await ended(stage, "work")

        assert (record.state, record.attempts, record.failures) == (State.COMPLETED, 2, 1)
        assert await bank.entries() == [(record.ref.id, 2)]

    on_each(play, bank)


def test_a_function_may_try_again_after_a_block_that_failed(bank: Bank) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            try:
                async with ctx.transaction() as connection:
                    await connection.execute(NOWHERE)
            except NO_TABLE:
                await ctx.progress(1, 2)
            async with ctx.transaction() as connection:
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))

        stage.task("work", work)
        record, _ = await ended(stage, "work")

        assert (record.state, record.attempts) == (State.COMPLETED, 1)
        assert await bank.entries() == [(record.ref.id, 1)]

    on_each(play, bank)


@pytest.mark.promise("P-10", "P-11", "P-17")
@pytest.mark.parametrize("is_async", [True, False])
def test_a_stale_attempt_writes_nothing_and_hears_of_it_before_it_does(bank: Bank, is_async: bool) -> None:
    heard: list[type[BaseException]] = []
    inside: list[int] = []

    async def play(stage: Stage) -> None:
        def let_go(ctx: Ctx) -> Coroutine[Any, Any, Any]:
            release = decide(ctx._lease, Interrupted(), settlement_id=1)
            return stage.backend.settle(QUEUE, [release])

        async def work(ctx: Ctx) -> None:
            if ctx.attempt == 1:
                assert await let_go(ctx) == (Settled.APPLIED,)
            try:
                async with ctx.transaction() as connection:
                    inside.append(ctx.attempt)
                    await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
            except LeaseLost as error:
                heard.append(type(error))
                raise

        loop = asyncio.get_running_loop()

        def work_in_a_thread(ctx: Ctx) -> None:
            if ctx.attempt == 1:
                asyncio.run_coroutine_threadsafe(let_go(ctx), loop).result()
            try:
                with ctx.transaction_sync() as connection:
                    inside.append(ctx.attempt)
                    connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
            except LeaseLost as error:
                heard.append(type(error))
                raise

        stage.task("work", work if is_async else work_in_a_thread)
        record, process = await ended(stage, "work")

        assert (heard, inside) == ([LeaseLost], [2])
        assert (record.state, record.attempts, record.failures, record.stalls) == (State.COMPLETED, 2, 0, 0)
        assert await bank.entries() == [(record.ref.id, 2)]
        assert [event.write for event in process.events(LeaseWasLost)] == ["transaction"]

    on_each(play, bank)


@pytest.mark.promise("P-11")
def test_a_job_that_nobody_owns_at_the_end_of_its_block_keeps_none_of_it(bank: Bank) -> None:
    heard: list[str] = []

    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            try:
                async with ctx.transaction() as connection:
                    await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
                    if ctx.attempt == 1:
                        release = decide(ctx._lease, Interrupted(), settlement_id=1)
                        assert (
                            await stage.backend.joined(connection).settle(QUEUE, release) is Settled.APPLIED
                        )
            except LeaseLost as error:
                heard.append(str(error))
                raise

        stage.task("work", work)
        record, _ = await ended(stage, "work", lease_ms=600)

        assert len(heard) == 1
        assert (record.state, record.attempts, record.stalls) == (State.COMPLETED, 2, 1)
        assert await bank.entries() == [(record.ref.id, 2)]

    on_each(play, bank)


@pytest.mark.slow
@pytest.mark.promise("P-15")
def test_an_attempt_goes_on_after_a_failed_block_with_its_lease_renewed(bank: Bank) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            with pytest.raises(NO_TABLE):
                async with ctx.transaction() as connection:
                    await connection.execute(NOWHERE)
            await asyncio.sleep(patience_s)

        patience_s = 1.5
        stage.task("work", work)
        record, _ = await ended(stage, "work", lease_ms=600)

        assert (record.state, record.attempts, record.stalls) == (State.COMPLETED, 1, 0)

    on_each(play, bank)


@pytest.mark.promise("P-50", "P-51")
def test_a_job_that_was_cancelled_before_the_block_ends_cancelled_without_its_rows(bank: Bank) -> None:
    heard: list[BaseException] = []

    async def play(stage: Stage) -> None:
        def work(ctx: Ctx) -> None:
            cancel = stage.backend.cancel(QUEUE, [ctx.job_id])
            asyncio.run_coroutine_threadsafe(cancel, loop).result()
            try:
                with ctx.transaction_sync() as connection:
                    connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
            except JobCancelled as error:
                heard.append(error)
                raise

        loop = asyncio.get_running_loop()
        stage.task("work", work)
        record, _ = await ended(stage, "work")

        assert (record.state, len(heard)) == (State.CANCELLED, 1)
        assert await bank.entries() == []

    on_each(play, bank)


@pytest.mark.promise("P-26")
def test_a_value_that_does_not_fit_undoes_the_block_and_is_not_tried_again(bank: Bank) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> int:
            async with ctx.transaction() as connection:
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
                return 7  # which the block does not see

        stage.task("work", work, retry=Retry(3))
        record, _ = await ended(stage, "work")

        assert (record.state, record.reason) == (State.FAILED, "result_not_serializable")
        assert (record.attempts, await bank.entries()) == (1, [])

    on_each(play, bank)


@pytest.mark.parametrize(("after", "told"), [("return", "a value"), ("raise", "ValueError")])
def test_what_comes_after_the_block_changes_nothing_and_is_told(bank: Bank, after: str, told: str) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> int | None:
            async with ctx.transaction() as connection:
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
            if after == "raise":
                raise ValueError(after)
            return 7

        stage.task("work", work, retry=Retry(3))
        record, process = await ended(stage, "work")

        assert (record.state, record.attempts, record.failures) == (State.COMPLETED, 1, 0)
        assert await bank.entries() == [(record.ref.id, 1)]
        assert [event.what for event in process.events(EndIgnored)] == [told]

    on_each(play, bank)


@pytest.mark.promise("P-11", "P-63")
def test_after_the_block_the_attempt_owns_nothing_any_more(bank: Bank) -> None:
    refused: list[str] = []

    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            async with ctx.transaction() as connection:
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
            for write in (ctx.progress(1), ctx.log("late"), ctx.transaction().__aenter__()):
                try:
                    await write
                except LeaseLost as error:
                    refused.append(type(error).__name__)

        stage.task("work", work)
        record, _ = await ended(stage, "work")

        assert refused == ["LeaseLost"] * 3
        assert (record.state, record.progress, record.log) == (State.COMPLETED, None, ())

    on_each(play, bank)


def test_what_would_wait_for_its_own_transaction_is_refused_at_once(bank: Bank) -> None:
    refused: list[str] = []

    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            async with ctx.transaction():
                for write in (ctx.progress(1), ctx.checkpoint(1), ctx.transaction().__aenter__()):
                    try:
                        await write
                    except WouldDeadlock as error:
                        refused.append(type(error).__name__)
            try:
                ctx.complete(1)
            except IllegalMove as error:
                refused.append(type(error).__name__)

        stage.task("work", work)
        record, _ = await ended(stage, "work")

        assert refused == ["WouldDeadlock"] * 3 + ["IllegalMove"]
        assert record.state is State.COMPLETED

    on_each(play, bank)


def test_only_the_block_ends_its_transaction(bank: Bank) -> None:
    refused: list[str] = []

    async def play(stage: Stage) -> None:
        def work(ctx: Ctx) -> None:
            with ctx.transaction_sync() as connection:
                connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
                for end in (connection.commit, connection.rollback):
                    try:
                        end()
                    except NOT_YOURS as error:
                        refused.append(str(error))
                raise ValueError("no")

        stage.task("work", work)
        record, _ = await ended(stage, "work")

        assert record.state is State.FAILED
        assert len(refused) == 2
        assert await bank.entries() == []

    on_each(play, bank)


@pytest.mark.promise("P-03", "P-04")
@pytest.mark.parametrize("is_async", [True, False])
def test_a_commit_whose_answer_is_lost_is_recognised_as_applied(bank: Bank, is_async: bool) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            async with ctx.transaction() as connection:
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))

        def work_in_a_thread(ctx: Ctx) -> None:
            with ctx.transaction_sync() as connection:
                connection.execute(bank.entry, (ctx.job_id, ctx.attempt))

        stage.task("work", work if is_async else work_in_a_thread)
        process = stage.process()
        process.wire.lose_reply("commit")
        process.wire.lose_request("begin", nth=2)  # the look at what became of it
        record, _ = await ended(stage, "work")

        assert (record.state, record.attempts, record.refused_count) == (State.COMPLETED, 1, 0)
        assert await bank.entries() == [(record.ref.id, 1)]
        assert not process.events(LeaseWasLost)

    on_each(play, bank)


@pytest.mark.promise("P-03", "P-04", "P-19")
@pytest.mark.parametrize("is_async", [True, False])
def test_a_commit_that_never_was_completes_nothing_and_costs_no_budget(bank: Bank, is_async: bool) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            async with ctx.transaction() as connection:
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))

        def work_in_a_thread(ctx: Ctx) -> None:
            with ctx.transaction_sync() as connection:
                connection.execute(bank.entry, (ctx.job_id, ctx.attempt))

        stage.task("work", work if is_async else work_in_a_thread)
        process = stage.process()
        process.wire.fail("commit", IndeterminateWrite("neither sent nor refused"))
        record, _ = await ended(stage, "work")

        assert (record.state, record.attempts) == (State.COMPLETED, 2)
        assert (record.failures, record.stalls) == (0, 0)
        assert await bank.entries() == [(record.ref.id, 2)]

    on_each(play, bank)


@pytest.mark.promise("P-19")
@pytest.mark.parametrize("operation", ["begin", "check", "joined_settle", "commit"])
def test_an_outage_in_a_transaction_costs_no_budget(bank: Bank, operation: str) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            async with ctx.transaction() as connection:
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))

        stage.task("work", work)
        process = stage.process()
        process.wire.lose_request(operation)
        record, _ = await ended(stage, "work")

        assert (record.state, record.failures, record.stalls) == (State.COMPLETED, 0, 0)
        assert await bank.entries() == [(record.ref.id, record.attempts)]
        assert record.attempts == (1 if operation in ("begin", "check") else 2)

    on_each(play, bank)


@pytest.mark.slow
@pytest.mark.promise("P-15", "P-16", "P-23")
def test_a_block_that_outlasts_its_lease_is_undone_and_counts_as_a_stall(bank: Bank) -> None:
    heard: list[str] = []

    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            try:
                async with ctx.transaction() as connection:
                    await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
                    if ctx.attempt == 1:
                        await asyncio.Event().wait()
            except LeaseLost as error:
                heard.append(str(error))
                raise

        stage.task("work", work)
        record, _ = await ended(stage, "work", lease_ms=600)

        assert (record.state, record.attempts, record.stalls, record.failures) == (State.COMPLETED, 2, 1, 0)
        assert await bank.entries() == [(record.ref.id, 2)]
        assert len(heard) == 1
        assert "longer lease" in heard[0]

    on_each(play, bank)


@pytest.mark.slow
@pytest.mark.promise("P-15")
def test_a_lease_is_renewed_before_and_not_during_a_block(bank: Bank) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            await asyncio.sleep(patience_s)
            async with ctx.transaction() as connection:
                await asyncio.sleep(patience_s)
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))

        patience_s = 0.5
        stage.task("work", work)
        record, process = await ended(stage, "work", lease_ms=1_000, heartbeat_ms=100)

        assert (record.state, record.attempts, record.refused_count) == (State.COMPLETED, 1, 0)
        assert process.wire.calls["renew"] in range(2, 9)

    on_each(play, bank)


@pytest.mark.slow
@pytest.mark.promise("P-15", "P-18")
@pytest.mark.parametrize("is_async", [True, False])
def test_a_block_that_begins_at_once_lasts_as_long_as_its_own_tasks_lease(bank: Bank, is_async: bool) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            async with ctx.transaction() as connection:
                await asyncio.sleep(patience_s)
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))

        def work_in_a_thread(ctx: Ctx) -> None:
            with ctx.transaction_sync() as connection:
                threading.Event().wait(patience_s)
                connection.execute(bank.entry, (ctx.job_id, ctx.attempt))

        patience_s = 1
        stage.task("work", work if is_async else work_in_a_thread, lease_ms=20_000)
        record, process = await ended(stage, "work", lease_ms=600)

        assert (record.state, record.attempts, record.refused_count) == (State.COMPLETED, 1, 0)
        assert await bank.entries() == [(record.ref.id, 1)]
        assert process.wire.calls["renew"] == 1

    on_each(play, bank)


@pytest.mark.promise("P-81")
def test_a_stop_undoes_the_block_and_gives_the_job_back(bank: Bank) -> None:
    async def play(stage: Stage) -> None:
        is_inside = asyncio.Event()

        async def work(ctx: Ctx) -> None:
            async with ctx.transaction() as connection:
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
                if ctx.attempt == 1:
                    is_inside.set()
                    await asyncio.Event().wait()

        stage.task("work", work)
        job = await stage.enqueue("work")
        first = stage.start(drain_ms=0)
        await is_inside.wait()
        await first.stop()
        assert (await stage.job(job)).state is State.WAITING
        stage.start()
        await stage.until_ended(job)

        record = await stage.job(job)
        assert (record.state, record.attempts, record.stalls, record.failures) == (State.COMPLETED, 2, 0, 0)
        assert await bank.entries() == [(job, 2)]

    on_each(play, bank)


@pytest.mark.promise("P-90")
@pytest.mark.parametrize("backend_name", ["memory"])
def test_where_there_are_no_transactions_a_block_is_refused(backend_name: str) -> None:
    async def play(stage: Stage) -> None:
        stage.task("work", refused_in_memory)
        record, _ = await ended(stage, "work")

        assert (record.state, reason(record)) == (State.FAILED, "Unsupported")

    perform_in_real_time(play)


async def refused_in_memory(ctx: Ctx) -> None:
    with pytest.raises(Unsupported, match="SQL backend"):
        await ctx.transaction().__aenter__()
    raise Unsupported("as expected")


def test_jobs_that_complete_in_transactions_at_once_wait_for_one_another(bank: Bank) -> None:
    async def play(stage: Stage) -> None:
        async def work(ctx: Ctx) -> None:
            async with ctx.transaction() as connection:
                await connection.execute(bank.entry, (ctx.job_id, ctx.attempt))
                await asyncio.sleep(0)

        def work_in_a_thread(ctx: Ctx) -> None:
            with ctx.transaction_sync() as connection:
                connection.execute(bank.entry, (ctx.job_id, ctx.attempt))

        stage.task("work", work)
        stage.task("other", work_in_a_thread)
        jobs = await stage.enqueue_many("work", [()] * 20) + await stage.enqueue_many("other", [()] * 20)
        process = stage.start(concurrency=20)
        await stage.until_ended(*jobs)
        await process.stop()

        assert sorted(await bank.entries()) == sorted((job, 1) for job in jobs)
        assert (await stage.backend.counts(QUEUE)).completed == 40

    on_each(play, bank)


def test_an_unreachable_backend_is_told_to_a_session_of_the_functions_own(bank: Bank) -> None:
    async def play(stage: Stage) -> None:
        def work(ctx: Ctx) -> None:
            with bank.connected() as own, ctx.transaction_sync(own) as connection:
                assert connection is own
                connection.execute(bank.entry, (ctx.job_id, ctx.attempt))

        stage.task("work", work, retry=AT_ONCE)
        process = stage.process()
        process.wire.fail("check", BackendUnavailable("the file stayed locked"))
        record, _ = await ended(stage, "work")

        assert (record.state, record.attempts, record.failures) == (State.COMPLETED, 2, 1)
        assert await bank.entries() == [(record.ref.id, 2)]

    on_each(play, bank)
