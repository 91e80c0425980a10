"""What happened to an attempt → the settlement that ends it. Every rule about endings lives here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from leasemq.protocol.model import Lease, OnParentFailure, Outcome, Settlement, Side, State
from leasemq.protocol.record import record
from leasemq.protocol.retry import Retry, delay_ms

UNFIT_FIRST_MS = 1_000  # how long a job that this worker cannot run is left alone, doubled at each claim
UNFIT_MOST_MS = 30_000


class Reason(StrEnum):
    """Why a job failed, beside its error."""

    ERROR = "error"  # raised, with no retry policy or one that gives up on this error
    RETRIES = "retries"  # the retry budget is spent
    DEAD = "dead"  # the function said so
    TIMEOUT = "timeout"
    STALLED = "stalled"
    RESULT_NOT_SERIALIZABLE = "result_not_serializable"
    RESULT_TOO_LARGE = "result_too_large"
    CORRUPT = "corrupt"
    PARENT = "parent"


@record(frozen=True, slots=True, kw_only=True)
class Returned:
    """The function returned; `result` is encoded."""

    result: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The function raised or ran out of time; `after_ms` is a delay that it asked for itself."""

    error: bytes
    retryable: bool = True
    after_ms: int | None = None
    reason: Reason = Reason.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Hopeless:
    """Running it again cannot help."""

    error: bytes
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Snoozed:
    """The function asked to run later."""

    delay_ms: int


@dataclass(frozen=True, slots=True)
class Interrupted:
    """We ended the attempt: shutdown, or a lease that could not be renewed in time."""


@dataclass(frozen=True, slots=True)
class Unfit:
    """This worker does not know the task or the envelope's version; another may."""


@dataclass(frozen=True, slots=True)
class Silent:
    """The lease ended without a word from its holder."""


Happened = Returned | Raised | Hopeless | Snoozed | Interrupted | Unfit | Silent


def decide(
    lease: Lease,
    happened: Happened,
    *,
    settlement_id: int,
    retry: Retry | None = None,
    dice: float = 0.0,
    cancel_requested: bool = False,
) -> Settlement:
    """Answer what must be written.

    Args:
        settlement_id: fresh and random; repeats of the same settlement keep it.
        dice: a random number in [0, 1) for the retry's jitter.
        cancel_requested: cancellation is known to be recorded, by the lease or by an earlier answer.
            From then on `cancelled` is the only outcome, whatever happened.
    """
    if cancel_requested or lease.cancel_requested:
        return _cancelled(lease, happened, settlement_id)
    match happened:
        case Returned(result=result):
            return _completed(lease, settlement_id, result)
        case Raised():
            return _raised(lease, happened, settlement_id, retry, dice)
        case Hopeless(error=error, reason=reason):
            return _failed(lease, settlement_id, error, reason)
        case Snoozed(delay_ms=delay):
            return _again(lease, settlement_id, Outcome.SNOOZED, delay)
        case Interrupted():
            return _again(lease, settlement_id, Outcome.RELEASED, 0)
        case Unfit():
            wait_ms = min(UNFIT_FIRST_MS << min(lease.attempts - 1, 10), UNFIT_MOST_MS)
            return _again(lease, settlement_id, Outcome.RELEASED, wait_ms)
        case Silent():
            return _stalled(lease, settlement_id)
        case _:
            assert_never(happened)


def passes(on_failure: OnParentFailure, outcome: State | None) -> bool | None:
    """Answer what a parent's end means for a dependant: it passes, fails, or (None) stays blocked.

    Args:
        outcome: how the parent ended; None: there is no such job (any more).
    """
    if outcome is State.COMPLETED or on_failure is OnParentFailure.IGNORE:
        return True
    return None if on_failure is OnParentFailure.KEEP else False


def is_suspect(stalls: int, max_stalls: int) -> bool:
    """Whether the next stall would be the job's last, so that it must run alone."""
    return stalls == max_stalls > 0


def _raised(lease: Lease, raised: Raised, settlement_id: int, retry: Retry | None, dice: float) -> Settlement:
    if retry is None or not raised.retryable:
        return _failed(lease, settlement_id, raised.error, raised.reason)
    failures = lease.failures + 1
    delay = delay_ms(retry, failures, dice)
    if delay is None:
        reason = raised.reason if raised.reason is not Reason.ERROR else Reason.RETRIES
        return _failed(lease, settlement_id, raised.error, reason)
    if raised.after_ms is not None:
        delay = raised.after_ms
    again = _again(lease, settlement_id, Outcome.RETRIED, delay)
    return replace(again, failures=failures, error=raised.error)


def _completed(lease: Lease, settlement_id: int, result: bytes) -> Settlement:
    return Settlement(
        id=settlement_id,
        job_id=lease.ref.id,
        generation=lease.ref.generation,
        fence=lease.fence,
        outcome=Outcome.COMPLETED,
        state=State.COMPLETED,
        failures=lease.failures,
        stalls=lease.stalls,
        result=result,
        keep_ms=lease.keep.record_ms,
        result_ms=lease.keep.result_ms,
    )


def _failed(lease: Lease, settlement_id: int, error: bytes, reason: Reason) -> Settlement:
    ended = _ended(lease, settlement_id, Outcome.FAILED, State.FAILED)
    return replace(ended, failures=lease.failures + 1, error=error, reason=reason.value)


def _stalled(lease: Lease, settlement_id: int) -> Settlement:
    stalls = lease.stalls + 1
    if stalls > lease.max_stalls:
        ended = _ended(lease, settlement_id, Outcome.STALLED, State.FAILED)
        return replace(ended, stalls=stalls, reason=Reason.STALLED.value, side=Side.SWEEP)
    again = _again(lease, settlement_id, Outcome.STALLED, 0)
    suspect = is_suspect(stalls, lease.max_stalls)
    return replace(again, stalls=stalls, suspect=suspect, side=Side.SWEEP)


def _cancelled(lease: Lease, happened: Happened, settlement_id: int) -> Settlement:
    """End as cancelled; a result is dropped, an error stays in the history, no budget is spent."""
    return replace(
        _ended(lease, settlement_id, Outcome.CANCELLED, State.CANCELLED),
        error=happened.error if isinstance(happened, Raised | Hopeless) else None,
        side=Side.SWEEP if isinstance(happened, Silent) else Side.HOLDER,
        seen_cancel=True,
    )


def _ended(lease: Lease, settlement_id: int, outcome: Outcome, state: State) -> Settlement:
    again = _again(lease, settlement_id, outcome, 0)
    return replace(again, state=state, suspect=False, keep_ms=lease.keep.for_state(state))


def _again(lease: Lease, settlement_id: int, outcome: Outcome, wait_ms: int) -> Settlement:
    return Settlement(
        id=settlement_id,
        job_id=lease.ref.id,
        generation=lease.ref.generation,
        fence=lease.fence,
        outcome=outcome,
        state=State.SCHEDULED if wait_ms > 0 else State.WAITING,
        failures=lease.failures,
        stalls=lease.stalls,
        delay_ms=wait_ms,
        suspect=is_suspect(lease.stalls, lease.max_stalls),
    )
