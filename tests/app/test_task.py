"""Registering functions and enqueueing them."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Annotated, Any

import pytest

import leasemq
from leasemq import App, Ctx, Parent, Retry, Secret, State, Unique
from leasemq.errors import (
    IdConflict,
    InvalidDelay,
    InvalidJobId,
    InvalidName,
    InvalidQueueName,
    InvalidSetting,
    NaiveDatetime,
    PayloadRejected,
    PayloadTooLarge,
    UnnamedTask,
)
from leasemq.protocol.envelope import describe
from leasemq.protocol.model import Keep, OnParentFailure, UniqueMode
from leasemq.protocol.overrides import decode_overrides
from leasemq.task import AsyncTask, PlainTask
from tests.app.holder import Holder

NEVER = App("memory://")  # for what is refused before a backend is asked


@NEVER.task
async def greet(name: str, times: int = 1) -> str:
    return name * times


@NEVER.task(name="double", queue="numbers")
def double(value: int) -> int:
    return 2 * value


# ---- registering


def test_a_task_is_called_by_module_and_qualname_or_as_told() -> None:
    assert greet.name == f"{__name__}.greet"
    assert double.name == "double"
    assert dict(NEVER.tasks) == {greet.name: greet, "double": double}


def test_the_kind_of_function_decides_the_kind_of_task() -> None:
    assert isinstance(greet, AsyncTask)
    assert isinstance(double, PlainTask)


async def test_a_plain_call_runs_the_function_here_and_now() -> None:
    assert await greet("ab", times=2) == "abab"
    assert double(21) == 42


async def test_a_function_that_takes_a_context_is_called_with_one_or_says_why_not() -> None:
    app = App("memory://")

    @app.task(name="report")
    async def report(ctx: Ctx, month: str) -> str:
        return month

    with pytest.raises(TypeError, match="only while a job runs"):
        await report("2026-11")
    assert report.takes_context


def test_a_context_is_found_by_its_annotation_however_it_is_written() -> None:
    app = App("memory://")

    def one(ctx: leasemq.Ctx, n: int) -> None: ...
    def two(ctx: Ctx) -> None: ...
    def three(n: int, m: int) -> None: ...
    def four(anything, n: int) -> None: ...  # type: ignore[no-untyped-def]  # unannotated is the point
    def five() -> None: ...
    def six(ctx: Nowhere.Ctx) -> None: ...  # type: ignore[name-defined]  # noqa: F821  known to type checkers only

    six.__annotations__["ctx"] = "Nowhere.Ctx"
    found = [app.task(name=f.__name__)(f).takes_context for f in (one, two, three, four, five, six)]
    assert found == [True, True, False, False, False, True]


def test_two_tasks_of_one_name_are_refused_aliases_included() -> None:
    app = App("memory://")
    app.task(name="a", aliases=["old"])(noop)
    for taken in ("a", "old"):
        with pytest.raises(InvalidSetting, match=f"{taken!r} is taken"):
            app.task(name=taken)(noop)
    with pytest.raises(InvalidSetting, match="taken"):
        app.task(name="b", aliases=["old"])(noop)
    assert list(app.tasks) == ["a"]


@pytest.mark.parametrize(
    ("options", "error", "fault"),
    [
        ({"name": ""}, InvalidName, "empty"),
        ({"queue": "a\nb"}, InvalidQueueName, "control"),
        ({"retry": 5}, InvalidSetting, r"retry=Retry\(max_retries=5\)"),
        ({"timeout": 0}, InvalidSetting, "timeout"),
        ({"timeout": -1}, InvalidSetting, "timeout"),
        ({"lease": float("nan")}, InvalidSetting, "lease"),
        ({"ttl": 0}, InvalidSetting, "ttl"),
        ({"max_stalls": -1}, InvalidSetting, "max_stalls"),
        ({"max_stalls": 1.5}, InvalidSetting, "max_stalls"),
        ({"priority": 101}, InvalidSetting, "priority"),
        ({"priority": True}, InvalidSetting, "priority"),
        ({"executor": "process", "memory_limit": 512}, InvalidSetting, "memory_limit=512 .*'512MiB'"),
        ({"executor": "process", "memory_limit": "lots"}, InvalidSetting, "memory_limit='lots'"),
        ({"executor": "process", "memory_limit": "0.5 MiB"}, InvalidSetting, "memory_limit='0.5 MiB'"),
        ({"executor": "process", "memory_limit": True}, InvalidSetting, "memory_limit=True"),
        ({"memory_limit": "512MiB"}, InvalidSetting, "memory_limit=.*executor='process'"),
        ({"executor": "gpu"}, InvalidSetting, "gpu"),
        ({"aliases": "old"}, InvalidSetting, r"\('old',\)"),
        ({"keep_result": -1}, InvalidDelay, "keep_result"),
        ({"retrys": Retry()}, TypeError, "retrys"),
    ],
)
@pytest.mark.promise("P-18")
def test_a_bad_option_is_refused_where_the_task_is_made(
    options: dict[str, Any], error: type[Exception], fault: str
) -> None:
    with pytest.raises(error, match=fault):
        App("memory://").task(**options)(noop)


@pytest.mark.parametrize("bad", [lambda: (yield), int, functools.partial(print), "text"])
def test_what_is_no_plain_function_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidSetting):
        App("memory://").task(name="x")(bad)


def test_an_async_generator_is_refused() -> None:
    async def many() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(InvalidSetting, match="generator"):
        App("memory://").task(name="x")(many)


def test_a_thread_is_for_plain_functions() -> None:
    async def swift() -> None: ...

    with pytest.raises(InvalidSetting, match="async"):
        App("memory://").task(name="x", executor="thread")(swift)
    assert App("memory://").task(name="x", executor="thread")(noop).name == "x"


@pytest.mark.parametrize(
    ("given", "size_bytes"), [(1 << 20, 1 << 20), ("512MiB", 512 << 20), ("1.5 GB", 1_500_000_000)]
)
@pytest.mark.promise("P-80")
def test_a_memory_limit_is_bytes_or_a_number_with_a_unit(given: int | str, size_bytes: int) -> None:
    task = App("memory://").task(executor="process", memory_limit=given)(noop)
    assert task.policy.memory_limit_bytes == task.routine().memory_limit_bytes == size_bytes


@pytest.mark.promise("P-80")
def test_a_function_that_no_child_process_can_import_is_refused() -> None:
    def nested() -> None: ...

    with pytest.raises(InvalidSetting, match=r"nested.*top level"):
        App("memory://").task(name="x", executor="process")(nested)
    with pytest.raises(InvalidSetting, match="lambda"):
        App("memory://").task(name="x", executor="process")(lambda: None)
    moved = functools.wraps(noop)(lambda: None)  # says that it is noop, and is not
    with pytest.raises(InvalidSetting, match="cannot import"):
        App("memory://").task(name="x", executor="process")(moved).routine()


def test_a_routine_carries_the_policy_with_the_app_s_where_the_task_says_nothing() -> None:
    app = App("memory://", retry=Retry(3), result_limit=100)
    plain = app.task(name="plain")(noop).routine()
    own = app.task(name="own", retry=Retry(1), timeout=2, lease=timedelta(seconds=5), aliases=["old"])(noop)
    never = app.task(name="never", retry=None)(noop)
    assert (plain.retry, plain.timeout_ms, plain.lease_ms) == (Retry(3), None, None)
    assert plain.result_limit_bytes == 100
    assert (own.routine().retry, own.routine().timeout_ms) == (Retry(1), 2_000)
    assert (own.routine().lease_ms, own.routine().aliases) == (5_000, ("old",))
    assert never.routine().retry is None


# ---- wrong use, refused before anything is written


@pytest.mark.promise("P-100", "E-1")
async def test_an_argument_of_the_wrong_type_is_refused_at_the_call_naming_it() -> None:
    with pytest.raises(PayloadRejected, match="times"):
        await greet.enqueue("ada", "3")  # type: ignore[arg-type]  # a text is the point
    with pytest.raises(PayloadRejected, match="name"):
        await greet.enqueue()  # type: ignore[call-arg]  # none is the point


@pytest.mark.promise("P-100", "B33")
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), object(), {1}, print, 2**64])
async def test_what_is_not_plain_data_is_refused_at_the_call(value: object) -> None:
    app = App("memory://")

    @app.task(name="t")
    async def t(anything: Any) -> None: ...

    async with app:
        with pytest.raises(PayloadRejected, match="anything"):
            await t.enqueue(value)
        assert await app.queues() == ()


@pytest.mark.promise("P-101", "B34", "E-57", "A-40")
async def test_a_payload_of_the_limit_is_accepted_and_one_byte_more_is_refused_unsent(url: str) -> None:
    app = App(url, payload_limit=1_000)

    @app.task(name="t")
    async def t(text: str) -> None: ...

    async with app:
        job = await t.enqueue("")
        room = 1_000 - len((await job.record()).payload)
        await t.enqueue("x" * room)
        for many in (False, True):
            with pytest.raises(PayloadTooLarge, match="1000"):
                await (t.enqueue_many([("x" * (room + 1),)]) if many else t.enqueue("x" * (room + 1)))
        assert (await app.queue().counts()).accepted == 2


@pytest.mark.promise("P-31", "B36")
@pytest.mark.parametrize("delay", [-5, 1e12, float("inf"), float("nan"), timedelta(seconds=-1), True, "5"])
async def test_a_delay_that_makes_no_sense_is_refused(delay: Any) -> None:
    with pytest.raises(ValueError, match="delay"):
        greet.options(delay=delay)


@pytest.mark.promise("P-31", "B37")
async def test_a_due_time_without_a_time_zone_is_refused() -> None:
    with pytest.raises(NaiveDatetime, match="time zone"):
        greet.options(due_at=datetime(2026, 1, 1, 9))  # noqa: DTZ001  naive is the point


@pytest.mark.parametrize(
    ("options", "error", "fault"),
    [
        ({"id": ""}, InvalidJobId, "empty"),
        ({"id": "a" * 257}, InvalidJobId, "257"),
        ({"id": "a\ud800"}, InvalidJobId, "surrogate"),
        ({"queue": "a\x00"}, InvalidQueueName, "control"),
        ({"unique": ""}, InvalidName, "empty"),
        ({"priority": -101}, InvalidSetting, "priority"),
        ({"ttl": -1}, InvalidSetting, "ttl"),
        ({"reuse": "failed"}, InvalidSetting, r"\{'failed'\}"),
        ({"reuse": {"active"}}, InvalidSetting, "active"),
        ({"retry": 3}, InvalidSetting, "Retry"),
        ({"retry": Retry(1, retry_on=OSError)}, InvalidSetting, "retry_on"),
        ({"delay": 1, "due_at": datetime(2026, 1, 1, tzinfo=UTC)}, InvalidSetting, "delay"),
        ({"dellay": 1}, TypeError, "dellay"),
    ],
)
@pytest.mark.promise("P-42", "B55")
def test_a_bad_option_is_refused_where_it_is_given(
    options: dict[str, Any], error: type[Exception], fault: str
) -> None:
    with pytest.raises(error, match=fault):
        greet.options(**options)


async def test_one_id_for_many_jobs_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="one job"):
        await greet.options(id="a").enqueue_many([("x",), ("y",)])


async def test_a_task_of_the_running_script_without_a_name_is_refused_at_enqueue_and_at_worker_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App("memory://")

    def script() -> None: ...

    monkeypatch.setattr(script, "__module__", "__main__")
    unnamed = app.task(script)
    with pytest.raises(UnnamedTask, match=r"name='script'"):
        await unnamed.enqueue()
    async with app:
        with pytest.raises(UnnamedTask):
            app.worker()


# ---- enqueueing


@pytest.mark.promise("P-40", "P-01", "A-1")
async def test_an_enqueue_answers_a_handle_on_a_stored_job(app: App) -> None:
    task = app.task(name="t", queue="mail", priority=3, max_stalls=5, ttl=60)(greet.function)
    async with app:
        job = await task.enqueue("ada", 2)
        record = await job.record()
    assert job.created
    assert (job.queue, job.id, job.generation) == ("mail", record.ref.id, 1)
    assert (record.task, record.state, record.priority, record.max_stalls) == ("t", State.WAITING, 3, 5)
    assert record.expires_ms == record.created_ms + 60_000
    assert describe(record.payload)["kwargs"] == {"name": "ada", "times": 2}


@pytest.mark.promise("P-40", "A-5", "B45")
async def test_a_known_id_answers_the_known_job_in_every_state(app: App, holder: Holder) -> None:
    task = app.task(name="t")(greet.function)
    async with app:
        jobs = await asyncio.gather(*(task.options(id="x").enqueue("a") for _ in range(50)))
        assert [job.created for job in jobs].count(True) == 1
        (lease,) = await holder.claim()
        assert not (await task.options(id="x").enqueue("other")).created
        await holder.returns(lease, task, "done")
        again = await task.options(id="x").enqueue("a")
        assert (again.created, again.generation) == (False, 1)
        assert await again.result() == "done"
        anew = await task.options(id="x", reuse={"completed"}).enqueue("a")
        assert (anew.created, anew.generation) == (True, 2)


@pytest.mark.promise("P-40")
async def test_strictness_refuses_a_known_id_with_other_arguments(app: App) -> None:
    task = app.task(name="t")(greet.function)
    strict = task.options(id="x", strict=True)
    async with app:
        assert (await strict.enqueue("a")).created
        assert not (await strict.enqueue("a")).created
        with pytest.raises(IdConflict, match="x"):
            await strict.enqueue("b")


@pytest.mark.promise("P-31", "A-8")
async def test_a_delay_and_a_due_time_make_the_job_scheduled_and_one_in_the_past_means_now(app: App) -> None:
    task = app.task(name="t")(greet.function)
    async with app:
        later = await (await task.options(delay=timedelta(days=60)).enqueue("a")).record()
        assert later.state is State.SCHEDULED
        assert later.due_ms == later.created_ms + 60 * 86_400_000
        instant = datetime(2200, 1, 1, 9, tzinfo=timezone(timedelta(hours=5, minutes=45)))
        at = await (await task.options(due_at=instant).enqueue("a")).record()
        assert at.due_ms == int(instant.timestamp() * 1_000)
        for past in (datetime(2001, 1, 1, tzinfo=UTC), datetime(1960, 1, 1, tzinfo=UTC)):
            assert await (await task.options(due_at=past).enqueue("a")).state() is State.WAITING
        assert await (await task.options(delay=0).enqueue("a")).state() is State.WAITING


async def test_options_win_over_the_task_and_later_ones_over_earlier_ones(app: App) -> None:
    task = app.task(name="t", queue="a", priority=1)(greet.function)
    async with app:
        chosen = task.options(queue="b", priority=2).options(priority=3)
        record = await (await chosen.enqueue("x")).record()
        assert (record.ref.queue, record.priority) == ("b", 3)
        assert (await (await task.enqueue("x")).record()).priority == 1


async def test_a_policy_of_its_own_is_stored_with_the_job(app: App) -> None:
    task = app.task(name="t")(greet.function)
    async with app:
        record = await (await task.options(retry=Retry(7), timeout=9).enqueue("x")).record()
        overrides = decode_overrides(record.overrides)
        assert overrides.retry is not None
        assert (overrides.retry.max_retries, overrides.timeout_ms) == (7, 9_000)
        assert (await (await task.enqueue("x")).record()).overrides == b""


async def test_retention_is_the_app_s_the_task_s_or_the_job_s(url: str) -> None:
    app = App(url, keep_dead=10)
    task = app.task(name="t", keep_result=20)(greet.function)
    async with app:
        record = await (await task.options(keep_record=30).enqueue("x")).record()
        assert record.keep == Keep(result_ms=20_000, record_ms=30_000, dead_ms=10_000)
        usual = await (await task.enqueue("x")).record()
        assert usual.keep == Keep(result_ms=20_000, record_ms=20_000 + 86_400_000, dead_ms=10_000)


@pytest.mark.promise("P-41")
async def test_a_unique_key_answers_its_holder(app: App) -> None:
    task = app.task(name="t")(greet.function)
    async with app:
        first = await task.options(unique="k").enqueue("a")
        second = await task.options(unique="k").enqueue("b")
        assert (second.id, second.created) == (first.id, False)
        third = await task.options(unique=Unique(key="k", mode=UniqueMode.REPLACE)).enqueue("c")
        assert third.id == first.id
        assert describe((await first.record()).payload)["kwargs"] == {"name": "c"}


@pytest.mark.promise("P-110")
async def test_a_dependant_waits_for_its_parent_and_one_of_an_ended_parent_does_not(
    app: App, holder: Holder
) -> None:
    task = app.task(name="t")(greet.function)
    async with app:
        parent = await task.enqueue("a")
        child = await task.options(after=[parent]).enqueue("b")
        assert await child.state() is State.BLOCKED
        (lease,) = await holder.claim()
        assert lease.ref.id == parent.id
        await holder.returns(lease, task, "x")
        late = await task.options(after=[parent]).enqueue("c")
        assert await late.state() is State.WAITING
        lenient = Parent(queue="default", id="unknown", on_failure=OnParentFailure.IGNORE)
        assert await (await task.options(after=[lenient]).enqueue("d")).state() is State.WAITING


@pytest.mark.promise("A-4")
async def test_many_jobs_keep_their_order_and_may_mix_queues_and_options(app: App) -> None:
    task = app.task(name="t")(greet.function)
    async with app:
        calls = [task.call("a"), task.options(queue="b", id="own").call("b", times=3), task.call("c")]
        jobs = await task.enqueue_many(calls)
        assert [job.queue for job in jobs] == ["default", "b", "default"]
        assert jobs[1].id == "own"
        assert all(job.created for job in jobs)
        plain = await task.enqueue_many([("x",), ["y", 2]])
        assert [job.created for job in plain] == [True, True]
        assert await task.enqueue_many([]) == []


@pytest.mark.promise("P-32")
async def test_jobs_of_one_producer_are_claimed_in_the_order_of_their_enqueues(
    app: App, holder: Holder
) -> None:
    task = app.task(name="t")(greet.function)
    async with app:
        jobs = list(await asyncio.gather(*(task.enqueue("a") for _ in range(20))))
        jobs += await task.enqueue_many([("a",)] * 20)
        leases = await holder.claim(limit=40)
        assert [lease.ref.id for lease in leases] == [job.id for job in jobs]


@pytest.mark.promise("P-102")
async def test_a_secret_argument_is_named_nowhere_but_in_the_payload(app: App) -> None:
    @app.task(name="login")
    async def login(user: str, password: Annotated[str, Secret]) -> None: ...

    async with app:
        job = await login.enqueue("ada", "hunter2")
        record = await job.record()
        assert describe(record.payload)["kwargs"] == {"user": "ada", "password": "***"}
        assert "hunter2" not in f"{job!r} {job} {login!r} {login.call('ada', 'x').job.id}"
        with pytest.raises(PayloadRejected) as refused:
            await login.enqueue("ada", ["hunter2"])  # type: ignore[arg-type]  # a list is the point
        assert "hunter2" not in str(refused.value)


async def test_nothing_is_opened_before_the_first_use_and_the_first_use_opens(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/lazy.db")
    task = app.task(name="t")(greet.function)
    assert not (tmp_path / "lazy.db").exists()
    assert (await task.enqueue("a")).created
    assert (tmp_path / "lazy.db").exists()
    await app.close()


async def test_an_app_may_be_entered_twice_and_closes_with_the_last(app: App) -> None:
    task = app.task(name="t")(greet.function)
    async with app:
        async with app.lifespan():
            await task.enqueue("a")
        assert app.worker().settings.queues == ("default",)
        assert (await task.enqueue("a")).created
    async with app:
        assert (await app.queue().counts()).accepted == 2


def noop() -> None: ...
