"""Functions in child processes: what they come to, and that nothing is left of them. Real time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from leasemq.context import Ctx
from leasemq.errors import ChildRaised, InvalidSetting
from leasemq.events import LeaseWasLost
from leasemq.protocol.decide import Reason
from leasemq.protocol.declared import DeclaredErrors
from leasemq.protocol.failure import decode_error
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import NewJob, Outcome, State
from leasemq.protocol.retry import Retry
from leasemq.worker import processes
from leasemq.worker.importable import lesson
from leasemq.worker.routine import Executor, Routine
from tests.worker import in_children
from tests.worker.stage import Stage, real_stage
from tests.worker.test_outcomes import RAISED

pytestmark = pytest.mark.slow

LEASE_MS = 30_000


@pytest_asyncio.fixture
async def stage() -> AsyncIterator[Stage]:
    """A stage in real time."""
    async with real_stage() as one:
        yield one


def _task(stage: Stage, function: Any, **policy: Any) -> Routine:
    return stage.task(function.__name__, function, executor=Executor.PROCESS, **policy)


async def _outcome(stage: Stage, function: Any, *args: Any, **policy: Any) -> JobRecord:
    """Run one job in a worker of its own, and answer its record."""
    _task(stage, function, **policy)
    job = await stage.enqueue(function.__name__, *args)
    process = stage.start(concurrency=1)
    await stage.until_ended(job)
    assert await process.stop() == 0
    return await stage.job(job)


def _result(stage: Stage, record: JobRecord) -> Any:
    assert record.state is State.COMPLETED, decode_error(record.error or b"")
    return stage.routines[record.task].signature.decode_result(record.result or b"")


async def _pid(stage: Stage, folder: Path) -> int:
    """Wait until the function runs, and answer its process id."""

    async def is_there() -> bool:
        return (folder / "pid").exists()

    await stage.until(is_there)
    return int((folder / "pid").read_text())


def _is_alive(pid: int) -> bool:
    """Whether there is a process with this id, a zombie included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.promise("P-80", "A-30")
async def test_jobs_run_in_a_child_process_that_is_used_again(stage: Stage) -> None:
    _task(stage, in_children.pid)
    _task(stage, in_children.add)
    jobs = await stage.enqueue_many("pid", [()] * 20)
    process = stage.start(concurrency=1)
    await stage.until_ended(*jobs)
    added = await stage.enqueue("add", 2, 3)
    await stage.until_ended(added)
    pids = {_result(stage, await stage.job(job)) for job in jobs}
    assert len(pids) == 1
    assert pids != {os.getpid()}
    assert _result(stage, await stage.job(added)) == 5
    assert await process.stop() == 0
    assert not _is_alive(pids.pop())


@pytest.mark.promise("P-80", "E-23")
async def test_no_more_children_run_at_once_than_there_are_slots(stage: Stage, tmp_path: Path) -> None:
    _task(stage, in_children.pid)
    jobs = await stage.enqueue_many("pid", [()] * 30)
    process = stage.start(concurrency=2)
    await stage.until_ended(*jobs)
    assert len({_result(stage, await stage.job(job)) for job in jobs}) <= 2
    await process.stop()


@pytest.mark.promise("P-60", "E-2", "B38")
async def test_a_declared_error_leaves_a_child_with_its_values_unless_they_cannot_be_stored(
    stage: Stage,
) -> None:
    raises = DeclaredErrors.of([in_children.Declined], task="declining")
    _task(stage, in_children.declining, raises=raises)
    good, odd = await stage.enqueue_many("declining", [("51", False), ("43", True)])
    process = stage.start(concurrency=1)
    await stage.until_ended(good, odd)
    stored = [decode_error((await stage.job(job)).error or b"") for job in (good, odd)]
    assert [error.message for error in stored] == ["declined with 51", "declined with 43"]
    again = raises.rebuilt(stored[0])
    assert isinstance(again, in_children.Declined)
    assert again.code == "51"
    assert raises.rebuilt(stored[1]) is None
    await process.stop()


async def test_a_declared_error_that_a_child_could_not_import_is_refused(stage: Stage) -> None:
    class Local(Exception):
        pass

    raises = DeclaredErrors.of([Local], task="declining")
    with pytest.raises(InvalidSetting, match="Local' of its raises"):
        lesson(_task(stage, in_children.declining, raises=raises))


@pytest.mark.promise("P-25", "P-21", "B38", "B39")
async def test_whatever_a_function_in_a_child_raises_ends_its_attempt_and_nothing_else(stage: Stage) -> None:
    _task(stage, in_children.raising, retry=Retry(1, base=0))
    _task(stage, in_children.pid)
    before = await stage.enqueue("pid")
    process = stage.start(concurrency=1)
    await stage.until_ended(before)
    bad = dict(zip(RAISED, await stage.enqueue_many("raising", [(name,) for name in RAISED]), strict=True))
    await stage.until_ended(*bad.values())
    after = await stage.enqueue("pid")
    await stage.until_ended(after)
    for name, job in bad.items():
        record = await stage.job(job)
        assert (record.state, record.attempts, record.failures) == (State.FAILED, 2, 2), name
    assert decode_error((await stage.job(bad["StopIteration"])).error or b"").type == "StopIteration"
    assert decode_error((await stage.job(bad["SystemExit"])).error or b"").traceback
    assert _result(stage, await stage.job(before)) == _result(stage, await stage.job(after))
    await process.stop()


@pytest.mark.promise("P-20", "P-25")
async def test_a_verdict_counts_as_it_does_in_a_thread(stage: Stage) -> None:
    _task(stage, in_children.verdict, retry=Retry(3))
    jobs = await stage.enqueue_many("verdict", [("snooze",), ("later",), ("dead",)])
    process = stage.start(concurrency=1)

    async def are_judged() -> bool:
        return len(process.events(LeaseWasLost)) == 0 and (await stage.backend.counts("q")).scheduled == 2

    await stage.until_ended(jobs[2])
    await stage.until(are_judged)
    snoozed, later, dead = [await stage.job(job) for job in jobs]
    assert (snoozed.state, snoozed.failures) == (State.SCHEDULED, 0)
    assert (later.state, later.failures) == (State.SCHEDULED, 1)
    assert (dead.state, dead.reason) == (State.FAILED, Reason.DEAD)
    await process.stop()


@pytest.mark.promise("P-20")
async def test_the_policy_s_rules_by_exception_class_hold_in_a_child(stage: Stage) -> None:
    record = await _outcome(
        stage, in_children.hopeless, retry=Retry(3, base=0, give_up_on=in_children.Hopeless)
    )
    assert (record.state, record.attempts) == (State.FAILED, 1)


@pytest.mark.promise("P-102")
async def test_a_secret_is_hidden_in_the_error_of_a_child(stage: Stage) -> None:
    record = await _outcome(stage, in_children.sign_in, "ada", "correct horse")
    assert b"ada cannot sign in with '***'" in (record.error or b"")
    assert b"correct horse" not in (record.error or b"")


@pytest.mark.promise("P-26", "P-101")
async def test_a_result_that_cannot_be_kept_is_refused_in_a_child(stage: Stage) -> None:
    record = await _outcome(stage, in_children.not_a_number, retry=Retry(3))
    assert (record.attempts, record.reason) == (1, Reason.RESULT_NOT_SERIALIZABLE)
    record = await _outcome(stage, in_children.long_text, 2_000, retry=Retry(3), result_limit_bytes=1_000)
    assert (record.attempts, record.reason) == (1, Reason.RESULT_TOO_LARGE)


@pytest.mark.promise("P-101", "A-30")
async def test_arguments_and_results_of_5_mb_go_through(stage: Stage) -> None:
    big = 5_000_000
    record = await _outcome(stage, in_children.long_text, big, result_limit_bytes=2 * big)
    assert len(_result(stage, record)) == big
    routine = _task(stage, in_children.length)
    payload = routine.signature.encode_arguments(("y" * big,), {}, 2 * big)
    stored = await stage.backend.enqueue("q", [NewJob(id="big", task="length", payload=payload)])
    job = stored[0].ref.id
    process = stage.start()
    await stage.until_ended(job)
    assert _result(stage, await stage.job(job)) == big
    await process.stop()


@pytest.mark.promise("P-80", "P-63", "P-14")
async def test_a_function_in_a_child_has_its_context_and_writes_notes(stage: Stage) -> None:
    record = await _outcome(stage, in_children.all_of_ctx, retry=Retry(1, base=0))
    told = _result(stage, record)
    assert told == {
        "fence": record.history[-1].fence,
        "key": told["key"],
        "attempt": 2,
        "failures": 1,
        "before": {"attempt": 1},
        "cancelled": False,
        "task": "all_of_ctx",
    }
    assert len(record.log) == 2
    assert record.progress is not None


@pytest.mark.promise("P-80", "P-110", "E-47")
async def test_a_function_in_a_child_enqueues_other_jobs_under_its_fence(stage: Stage) -> None:
    stage.routines["with_surroundings"] = in_children.with_surroundings.routine()
    _task(stage, in_children.with_children)
    job = await stage.enqueue("with_children")
    process = stage.start(concurrency=1)
    await stage.until_ended(job)
    record = await stage.job(job)
    assert _result(stage, record) == ["one", "other"]

    async def both_ended() -> bool:
        found = await stage.backend.get("q", ["one", "other"])
        return all(one is not None and one.state is State.COMPLETED for one in found)

    await stage.until(both_ended)
    for child in ("one", "other"):
        assert (await stage.job(child)).creator == record.ref
    await process.stop()


@pytest.mark.promise("P-80")
async def test_an_async_function_runs_in_a_loop_of_its_child(stage: Stage) -> None:
    record = await _outcome(stage, in_children.in_a_loop, 7)
    assert (_result(stage, record), len(record.log)) == (7, 1)


@pytest.mark.promise("P-80")
async def test_carried_variables_and_dependencies_reach_a_child(stage: Stage) -> None:
    task = in_children.with_surroundings
    stage.routines[task.name] = task.routine()
    token = in_children.tenant.set("ada")
    headers = in_children.app._additions.carried.collect()
    in_children.tenant.reset(token)
    jobs = [
        *await stage.enqueue_many(task.name, [()], headers=headers),
        *await stage.enqueue_many(task.name, [()]),
    ]
    process = stage.start(concurrency=1)
    await stage.until_ended(*jobs)
    assert [_result(stage, await stage.job(job)) for job in jobs] == [["ada", "open"], ["nobody", "open"]]
    await process.stop()


@pytest.mark.parametrize(
    ("function", "argument", "told"),
    [
        (in_children.end_with, 3, "exit code 3"),
        (in_children.end_with, 0, "exit code 0"),
        (in_children.end_by, signal.SIGSEGV, "SIGSEGV"),
        (in_children.end_by, signal.SIGKILL, "SIGKILL"),
        (in_children.end_by, signal.SIGTERM, "SIGTERM"),
    ],
)
@pytest.mark.promise("P-25", "P-80")
async def test_a_child_that_crashes_fails_its_job_and_is_replaced(
    stage: Stage, function: Any, argument: int, told: str
) -> None:
    _task(stage, function, retry=Retry(1, base=0))
    _task(stage, in_children.pid)
    bad = await stage.enqueue(function.__name__, int(argument))
    process = stage.start(concurrency=1)
    await stage.until_ended(bad)
    good = await stage.enqueue("pid")
    await stage.until_ended(good)
    record = await stage.job(bad)
    assert (record.state, record.attempts, record.failures, record.stalls) == (State.FAILED, 2, 2, 0)
    error = decode_error(record.error or b"")
    assert error.type == "leasemq.errors.ChildCrashed"
    assert told in error.message
    assert _result(stage, await stage.job(good))
    assert await process.stop() == 0


@pytest.mark.promise("P-80")
async def test_a_function_over_its_memory_limit_fails_and_the_limit_is_lifted_after(stage: Stage) -> None:
    limited = {"memory_limit_bytes": 64 << 20, "retry": None}
    _task(stage, in_children.take, **limited)
    stage.task("unlimited", in_children.take, executor=Executor.PROCESS)
    over = await stage.enqueue("take", 200 << 20)
    under = await stage.enqueue("take", 1 << 20)
    without = await stage.enqueue("unlimited", 200 << 20)
    process = stage.start(concurrency=1)
    await stage.until_ended(over, under, without)
    assert decode_error((await stage.job(over)).error or b"").type == "MemoryError"
    assert _result(stage, await stage.job(under)) == 1 << 20
    assert _result(stage, await stage.job(without)) == 200 << 20
    await process.stop()


@pytest.mark.promise("P-27", "A-30")
async def test_a_time_out_kills_a_child_that_ignores_the_order_to_end(stage: Stage, tmp_path: Path) -> None:
    _task(stage, in_children.ignore_the_order_to_end, timeout_ms=1_000)
    _task(stage, in_children.pid)
    warm = await stage.enqueue("pid")  # the time-out is long enough for a child that is there already
    process = stage.start(concurrency=1)
    await stage.until_ended(warm)
    job = await stage.enqueue("ignore_the_order_to_end", str(tmp_path))
    pid = await _pid(stage, tmp_path)
    await stage.until_ended(job)
    assert not _is_alive(pid)  # before its slot is given to another
    record = await stage.job(job)
    assert (record.state, record.reason) == (State.FAILED, Reason.TIMEOUT)
    assert decode_error(record.error or b"").type == "leasemq.errors.HandlerTimeout"
    assert await process.stop() == 0


@pytest.mark.promise("P-50", "P-51")
async def test_a_cancelled_job_s_child_is_terminated_with_time_to_clean_up(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "GRACE_MS", 20_000)  # however slow this machine is
    _task(stage, in_children.clean_up_when_told_to_end)
    job = await stage.enqueue("clean_up_when_told_to_end", str(tmp_path))
    process = stage.start(concurrency=1)
    pid = await _pid(stage, tmp_path)
    await stage.backend.cancel("q", [job])
    await stage.until_ended(job)
    record = await stage.job(job)
    assert (record.state, record.failures) == (State.CANCELLED, 0)
    assert (tmp_path / "cleaned").exists()
    assert not _is_alive(pid)
    assert await process.stop() == 0


@pytest.mark.promise("P-81", "P-16")
@pytest.mark.parametrize("stops", [1, 2])
async def test_a_stop_ends_the_children_and_releases_their_jobs(
    stage: Stage, tmp_path: Path, stops: int
) -> None:
    _task(stage, in_children.ignore_the_order_to_end)
    job = await stage.enqueue("ignore_the_order_to_end", str(tmp_path))
    process = stage.start(concurrency=1, drain_ms=10 if stops == 1 else LEASE_MS)
    pid = await _pid(stage, tmp_path)
    for _ in range(stops):
        process.worker.stop()
    assert process.task is not None
    assert await process.task == stops - 1
    record = await stage.job(job)
    assert (record.state, record.failures, record.stalls) == (State.WAITING, 0, 0)
    assert record.history[-1].outcome == Outcome.RELEASED
    assert not _is_alive(pid)


@pytest.mark.promise("P-81", "P-80")
async def test_a_signal_to_the_whole_group_of_a_stopping_worker_costs_no_failure(
    stage: Stage, tmp_path: Path
) -> None:
    _task(stage, in_children.run_until_ended)
    job = await stage.enqueue("run_until_ended", str(tmp_path))
    process = stage.start(concurrency=1)
    pid = await _pid(stage, tmp_path)
    os.kill(pid, signal.SIGINT)  # does nothing: the terminal's Ctrl-C is for the worker
    os.kill(pid, signal.SIGTERM)  # as a service manager does with all processes of the group
    assert await process.stop() == 0
    record = await stage.job(job)
    assert (record.state, record.failures, record.stalls) == (State.WAITING, 0, 0)


@pytest.mark.promise("P-10", "P-13", "P-16")
async def test_a_child_whose_lease_was_lost_learns_of_it_and_is_killed(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "LAST_NOTE_MS", 20_000)  # however slow this machine is
    _task(stage, in_children.note_when_let_go)
    os.mkfifo(tmp_path / "gate")
    job = await stage.enqueue("note_when_let_go", str(tmp_path))
    process = stage.start(concurrency=1)
    pid = await _pid(stage, tmp_path)
    await stage.backend.remove("q", [job], force=True)
    (tmp_path / "gate").open("w").close()  # waits for the function to open it too

    async def is_gone() -> bool:
        return not _is_alive(pid)

    await stage.until(is_gone)
    assert (tmp_path / "lost-4").exists()
    assert process.events(LeaseWasLost)
    assert await process.stop() == 0


@pytest.mark.promise("P-80")
async def test_nothing_is_left_of_the_children_of_a_closed_worker(stage: Stage) -> None:
    _task(stage, in_children.pid)
    fds = Path("/proc/self/fd")
    before = len(list(fds.iterdir()))
    jobs = await stage.enqueue_many("pid", [()] * 10)
    process = stage.start(concurrency=3)
    await stage.until_ended(*jobs)
    pids = {_result(stage, await stage.job(job)) for job in jobs}
    assert await process.stop() == 0
    assert not any(_is_alive(pid) for pid in pids)
    assert len(list(fds.iterdir())) == before


@pytest.mark.promise("P-80")
async def test_middleware_sees_the_value_or_the_error_of_a_child(stage: Stage) -> None:
    seen: list[object] = []

    async def around(ctx: Ctx, call: Any) -> Any:
        try:
            value = await call()
        except ChildRaised as error:
            seen.append(error.error_type)
            raise
        seen.append(value)
        return value

    _task(stage, in_children.add, around=around)
    _task(stage, in_children.raising, around=around)
    added = await stage.enqueue("add", 2, 3)
    raised = await stage.enqueue("raising", "Exception")
    process = stage.start(concurrency=1)
    await stage.until_ended(added, raised)
    assert _result(stage, await stage.job(added)) == 5
    assert decode_error((await stage.job(raised)).error or b"").type == "ValueError"
    assert seen == [5, "ValueError"]
    await process.stop()


def test_a_retry_policy_s_class_that_no_child_can_import_is_refused() -> None:
    class Local(Exception):
        """Nested."""

    task = in_children.app.task(name="y", executor="process", retry=Retry(give_up_on=Local))(in_children.add)
    with pytest.raises(InvalidSetting, match="Local"):
        task.routine()


@pytest.mark.promise("P-80")
async def test_a_stop_while_a_child_starts_releases_the_job(stage: Stage, tmp_path: Path) -> None:
    _task(stage, in_children.run_until_ended)
    job = await stage.enqueue("run_until_ended", str(tmp_path))
    process = stage.start(concurrency=1, drain_ms=0)

    async def is_active() -> bool:
        return (await stage.backend.counts("q")).active == 1

    await stage.until(is_active)
    await asyncio.sleep(0)
    assert await process.stop() == 0
    assert (await stage.job(job)).state is State.WAITING


@pytest.mark.promise("P-80", "P-25")
async def test_a_child_that_cannot_be_started_fails_its_job_and_not_the_worker(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    record = await _outcome(stage, in_children.pid, retry=Retry(1, base=0))
    assert (record.state, record.attempts, record.failures) == (State.FAILED, 2, 2)
    error = decode_error(record.error or b"")
    assert error.type == "leasemq.errors.ChildCrashed"
    assert "no-python" in error.message


@pytest.mark.promise("P-80", "P-25")
async def test_a_module_that_cannot_be_imported_in_the_child_fails_the_job(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "only_here.py").write_text("def work() -> int:\n    return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    work = import_module("only_here").work
    (tmp_path / "only_here.py").write_text("raise SystemExit('not in a child')\n")
    record = await _outcome(stage, work)
    assert (record.state, record.failures) == (State.FAILED, 1)
    assert "not in a child" in decode_error(record.error or b"").message


@pytest.mark.promise("P-05", "P-80", "A-30")
async def test_what_a_function_forks_neither_answers_nor_hears_in_its_place(stage: Stage) -> None:
    _task(stage, in_children.forking)
    _task(stage, in_children.add)
    forking = await stage.enqueue_many("forking", [()] * 3)
    others = await stage.enqueue_many("add", [(number, 1) for number in range(10)])
    process = stage.start(concurrency=1)
    await stage.until_ended(*forking, *others)
    assert await process.stop() == 0
    assert {_result(stage, await stage.job(job)) for job in forking} == {"from the child"}
    assert [_result(stage, await stage.job(job)) for job in others] == list(range(1, 11))
    records = [await stage.job(job) for job in [*forking, *others]]
    assert {(record.attempts, record.progress) for record in records} == {(1, None)}


@pytest.mark.promise("P-80", "A-30")
async def test_a_timer_that_a_function_leaves_does_not_end_the_next_one(stage: Stage) -> None:
    _task(stage, in_children.alarming)
    _task(stage, in_children.computing)
    job = await stage.enqueue("alarming")
    process = stage.start(concurrency=1)
    await stage.until_ended(job)
    next_one = await stage.enqueue("computing")
    await stage.until_ended(next_one)
    assert await process.stop() == 0
    assert _result(stage, await stage.job(next_one)) == "done"
