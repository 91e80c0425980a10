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

from leasemq.context import RunningAttempt, running_attempt, running_job
from leasemq.errors import (
    ArgumentMismatch,
    CorruptRecord,
    Dead,
    HandlerTimeout,
    InvalidDelay,
    ResultTooLarge,
    RetryAfter,
    Snooze,
    UnknownEnvelope,
)
from leasemq.protocol.decide import Happened, Hopeless, Interrupted, Raised, Reason, Returned, Snoozed, Unfit
from leasemq.protocol.failure import describe_exception, encode_error
from leasemq.protocol.overrides import decode_overrides
from leasemq.protocol.retry import should_retry
from leasemq.protocol.times import seconds_to_ms
from leasemq.worker.attempt import Attempt
from leasemq.worker.routine import Executor
from leasemq.worker.scopes import JobScope
from leasemq.worker.threads import Done, Threads

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


async def execute(attempt: Attempt, threads: Threads) -> Happened | None:
    """Run one attempt; None: its lease is lost, and nothing may be reported for it."""
    attempt.started = True
    if attempt.is_told_to_stop:
        return Interrupted()
    arguments = _arguments(attempt)
    if not isinstance(arguments, tuple):
        return arguments
    lease = attempt.lease
    running_job.set(lease.ref)
    running_attempt.set(
        RunningAttempt(ref=lease.ref, task=lease.task, attempt=lease.attempts, fence=lease.fence.number)
    )
    try:
        done = await _run(attempt, arguments, threads)
    except asyncio.CancelledError as error:
        if (attempt.interrupted or attempt.cancel_requested) and not attempt.timed_out:
            return None if attempt.lost else Interrupted()
        return _judged(attempt, error, arguments)
    except BaseException as error:  # a function of the user's: whatever it raises ends its attempt alone
        return _judged(attempt, error, arguments)
    if done.error is not None:
        return _judged(attempt, done.error, arguments)
    if attempt.lost:
        return None
    if attempt.is_out_of_time:
        return out_of_time(attempt)
    return _encoded(attempt, done.value)


def _arguments(attempt: Attempt) -> Arguments | Happened:
    """Answer what to call the function with, or why it cannot be called."""
    lease, routine = attempt.lease, attempt.routine
    try:
        if lease.headers and routine.carried is not None:
            routine.carried.restore(lease.headers, job=lease.ref.id)
        if lease.overrides:
            overrides = decode_overrides(lease.overrides, job=lease.ref.id)
            attempt.retry = overrides.retry or attempt.retry
        return routine.signature.decode_arguments(lease.payload, job=lease.ref.id)
    except UnknownEnvelope:
        return Unfit()
    except CorruptRecord as error:
        return Hopeless(error=_told(error), reason=Reason.CORRUPT)
    except ArgumentMismatch as error:
        return _raised(attempt, error, _told(error))


async def _run(attempt: Attempt, arguments: Arguments, threads: Threads) -> Done:
    routine, is_in_loop = attempt.routine, attempt.routine.runs_in is Executor.LOOP
    scope = JobScope(routine.dependencies, routine.shared)
    context = attempt.context(scope)
    positional, named = arguments
    if routine.takes_context:
        positional = (context, *positional)
    call = partial(routine.call, *positional, **named)
    if is_in_loop:
        run = partial(_run_in_loop, attempt, call, scope)
    else:
        run = partial(_run_in_thread, partial(scope.run, call, attempt.check_counts), threads)
    if routine.around is not None:
        if not is_in_loop and attempt.task is not None:  # but the middleware is, wherever its function runs
            attempt.on_stop = partial(_cancel, attempt.task)
        around = partial(routine.around, context, partial(_value_of, run, attempt))
        run = partial(_run_in_loop, attempt, around, scope)
    return await run()


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


def _judged(attempt: Attempt, error: BaseException, arguments: Arguments) -> Happened | None:
    """Answer what an exception out of the function means."""
    if attempt.lost:
        return None
    if attempt.timed_out:
        return out_of_time(attempt)
    hide = attempt.routine.signature.secret_texts(*arguments)
    told = _told(error, hide)
    try:
        if isinstance(error, Snooze):
            return Snoozed(delay_ms=seconds_to_ms(error.delay))
        if isinstance(error, RetryAfter):
            return Raised(error=told, after_ms=seconds_to_ms(error.delay))
    except InvalidDelay as refusal:
        return _raised(attempt, refusal, _told(refusal))
    if isinstance(error, Dead):
        return Hopeless(error=told, reason=Reason.DEAD)
    if attempt.interrupted:
        return Interrupted()  # it was being cancelled by us, so the error says nothing about the job
    return _raised(attempt, error, told)


def _raised(attempt: Attempt, error: BaseException, told: bytes, *, reason: Reason = Reason.ERROR) -> Raised:
    retryable = attempt.retry is not None and should_retry(attempt.retry, error)
    return Raised(error=told, retryable=retryable, reason=reason)


def out_of_time(attempt: Attempt, *, still_runs: bool = False) -> Raised:
    """Answer the failure of a function that ran for too long, and may still do so."""
    limit_s = (attempt.timeout_ms or 0) / 1_000
    told = f"task {attempt.routine.name} ran longer than its timeout of {limit_s:g} s"
    if still_runs:
        told += ", and its function still ran when the job was given up: another attempt may run beside it"
    timeout = HandlerTimeout(told)
    return _raised(attempt, timeout, _told(timeout), reason=Reason.TIMEOUT)


def _encoded(attempt: Attempt, value: object) -> Happened:
    routine = attempt.routine
    try:
        return Returned(result=routine.signature.encode_result(value, routine.result_limit_bytes))
    except ResultTooLarge as error:
        return Hopeless(error=_told(error), reason=Reason.RESULT_TOO_LARGE)
    except Exception as error:  # a result's own methods run while it is read: they may raise anything
        return Hopeless(error=_told(error), reason=Reason.RESULT_NOT_SERIALIZABLE)


def _told(error: BaseException, hide: tuple[str, ...] = ()) -> bytes:
    return encode_error(describe_exception(error, hide))
