"""One attempt: decode, run, answer what happened. The only place that catches CancelledError.

Whatever a function raises becomes a value here, BaseException and SystemExit included: it ends its own
attempt and nothing else. Which cancellation was ours is known from the attempt's flags, set before its
task is cancelled; one without a flag is of the function's own making, and counts as its failure.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from leasemq.context import Ctx, RunningAttempt, running_attempt, running_job
from leasemq.errors import CorruptRecord, HandlerTimeout
from leasemq.protocol.decide import Happened, Interrupted, Raised, Reason
from leasemq.protocol.overrides import decode_overrides
from leasemq.worker.attempt import Attempt
from leasemq.worker.executors import Executors
from leasemq.worker.far import FarCall
from leasemq.worker.outcome import Arguments, judged, raised, read_arguments, returned, unreadable
from leasemq.worker.routine import Executor
from leasemq.worker.scopes import JobScope
from leasemq.worker.threads import Done, Threads


async def execute(attempt: Attempt, executors: Executors) -> Happened | None:
    """Run one attempt; None: its lease is lost, and nothing may be reported for it."""
    attempt.started = True
    if attempt.is_told_to_stop:
        return Interrupted()
    routine = attempt.routine
    try:
        _enter(attempt)
    except CorruptRecord as error:
        return unreadable(error)
    if not routine.is_bare:
        happened = await _execute_within(attempt, executors)
        if attempt.finishing is not None:  # a function that was cancelled meanwhile has not waited for it
            await asyncio.wait({attempt.finishing})
        return happened
    arguments = _arguments(attempt)
    if not isinstance(arguments, tuple):
        return arguments
    try:  # nothing of it would have to be closed
        value = await routine.call(*arguments[0], **arguments[1])
        attempt.check_counts()
    except BaseException as error:  # a function of the user's: whatever it raises ends its attempt alone
        return _ended(attempt, error, arguments)
    return returned(routine.signature, value, routine.result_limit_bytes)


async def _execute_within(attempt: Attempt, executors: Executors) -> Happened | None:
    """Run wherever it belongs, with whatever belongs around the function."""
    if attempt.routine.runs_in is Executor.PROCESS:
        return await _execute_far(attempt, executors)
    arguments = _arguments(attempt)
    if not isinstance(arguments, tuple):
        return arguments
    try:
        done = await _run_here(attempt, arguments, executors.threads)
    except BaseException as error:  # as above
        return _ended(attempt, error, arguments)
    return _judged(attempt, done.error, arguments) if done.error is not None else _valued(attempt, done.value)


def _arguments(attempt: Attempt) -> Arguments | Happened:
    lease = attempt.lease
    return read_arguments(attempt.routine.signature, lease.payload, attempt.retry, job=lease.ref.id)


def _enter(attempt: Attempt) -> None:
    """Let the attempt's task know what it runs, and take along what the job brings beside its arguments.

    Raises: CorruptRecord.
    """
    lease, routine = attempt.lease, attempt.routine
    running_job.set(lease.ref)
    running_attempt.set(
        RunningAttempt(ref=lease.ref, task=lease.task, attempt=lease.attempts, fence=lease.fence.number)
    )
    if lease.headers and routine.carried is not None:
        routine.carried.restore(lease.headers, job=lease.ref.id)
    if lease.overrides:
        attempt.retry = decode_overrides(lease.overrides, job=lease.ref.id).retry or attempt.retry


async def _execute_far(attempt: Attempt, executors: Executors) -> Happened | None:
    """Run in a child process, which reads the arguments and judges what came; middleware runs here."""
    call = FarCall(attempt, executors.processes)
    if attempt.routine.around is None:
        return _standing(attempt, await call.run())
    scope = JobScope(attempt.routine.dependencies, attempt.routine.shared)
    try:
        done = await _run_around(attempt, attempt.context(scope), call.see, scope)
    except BaseException as error:  # middleware of the user's, or what the child answered, passed on
        if call.is_answer(error):
            return _standing(attempt, call.happened)
        return _ended(attempt, error, _arguments_to_hide(attempt))
    return _standing(attempt, call.happened) if call.is_answer(done.value) else _valued(attempt, done.value)


def _arguments_to_hide(attempt: Attempt) -> Arguments:
    lease = attempt.lease
    arguments = read_arguments(attempt.routine.signature, lease.payload, None, job=lease.ref.id)
    return arguments if isinstance(arguments, tuple) else ((), {})


async def _run_here(attempt: Attempt, arguments: Arguments, threads: Threads) -> Done:
    routine = attempt.routine
    positional, named = arguments
    scope = JobScope(routine.dependencies, routine.shared)
    context = attempt.context(scope)
    if routine.takes_context:
        positional = (context, *positional)
    call = partial(routine.call, *positional, **named)
    if routine.runs_in is Executor.LOOP:
        run = partial(_run_in_loop, attempt, call, scope)
    else:
        run = partial(_run_in_thread, partial(scope.run, call, attempt.check_counts), threads)
    return await (run() if routine.around is None else _run_around(attempt, context, run, scope))


async def _run_around(
    attempt: Attempt, context: Ctx, run: Callable[[], Awaitable[Done]], scope: JobScope
) -> Done:
    """Run the middleware, which runs the function; the middleware is in the loop wherever the function is."""
    routine = attempt.routine
    if routine.around is None:
        return await run()
    if routine.runs_in is not Executor.LOOP and attempt.task is not None:
        attempt.on_stop = partial(_cancel, attempt.task)
    return await _run_in_loop(
        attempt, partial(routine.around, context, partial(_value_of, run, attempt)), scope
    )


async def _run_in_loop(attempt: Attempt, call: Callable[[], Awaitable[Any]], scope: JobScope) -> Done:
    async with scope.level():
        value = await call()
        attempt.check_counts()
    return Done(value, None)


def _cancel(task: asyncio.Task[object]) -> None:
    task.cancel()


async def _value_of(run: Callable[[], Awaitable[Done]], attempt: Attempt) -> Any:
    """Answer the value, or raise the error: what middleware sees of a function."""
    stop_middleware, attempt.on_stop = attempt.on_stop, None
    try:
        done = await run()
    finally:
        attempt.on_stop = stop_middleware
    if done.error is not None:
        raise done.error
    return done.value


async def _run_in_thread(call: partial[Any], threads: Threads) -> Done:
    return await threads.start(call)


def _ended(attempt: Attempt, error: BaseException, arguments: Arguments) -> Happened | None:
    """Answer what an end without a value means. A cancellation is ours, or of the function's own making."""
    is_told = attempt.interrupted or attempt.cancel_requested
    if is_told and not attempt.timed_out and issubclass(type(error), asyncio.CancelledError):
        return None if attempt.lost else Interrupted()
    return _judged(attempt, error, arguments)


def _judged(attempt: Attempt, error: BaseException, arguments: Arguments) -> Happened | None:
    """Answer what an exception out of the function means."""
    hide = attempt.routine.signature.secret_texts(*arguments)
    return _standing(attempt, judged(error, attempt.retry, hide, attempt.routine.raises))


def _valued(attempt: Attempt, value: object) -> Happened | None:
    """Answer what a value out of the function means."""
    if attempt.completed is not None and value is None:
        return None
    if not (attempt.lost or attempt.is_out_of_time):
        return returned(attempt.routine.signature, value, attempt.routine.result_limit_bytes)
    return None if attempt.lost else out_of_time(attempt)


def _standing(attempt: Attempt, happened: Happened | None) -> Happened | None:
    """Answer what still holds of it, for an attempt that we may have ended."""
    if attempt.lost or happened is None:
        return None
    if attempt.timed_out:
        return out_of_time(attempt)
    if attempt.interrupted and isinstance(happened, Raised) and happened.after_ms is None:
        return Interrupted()  # it was being ended by us, so the error says nothing about the job
    return happened


def out_of_time(attempt: Attempt, *, still_runs: bool = False) -> Raised:
    """Answer the failure of a function that ran for too long, and may still do so."""
    limit_s = (attempt.timeout_ms or 0) / 1_000
    text = f"task {attempt.routine.name} ran longer than its timeout of {limit_s:g} s"
    if still_runs:
        text += ", and its function still ran when the job was given up: another attempt may run beside it"
    return raised(HandlerTimeout(text), attempt.retry, reason=Reason.TIMEOUT)
