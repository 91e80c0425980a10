"""The scripts that the explorer interleaves: holders, sweeps, a canceller, a replayer, a remover, the clock.

An actor is a generator. It yields one act, is sent the answer, decides, and yields the next act, which
happens only when the explorer gives it its turn again: so whatever it decided may be out of date by then.
Holders are stubborn: they write on although they were told that their lease is lost, as a process does
that was frozen in between.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from leasemq.protocol.decide import Happened, Silent, decide
from leasemq.protocol.model import (
    Claimant,
    Lease,
    NewJob,
    Note,
    NoteKind,
    Renewal,
    Settled,
    Settlement,
    State,
)
from leasemq.protocol.retry import Retry

JOB = "j"
QUEUE = "q"
LEASE_MS = 1_000
AGAIN = Retry(max_retries=None, base=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Claim one job."""

    claimant: Claimant


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """Renew one lease."""

    lease: Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Settle:
    """Settle one attempt."""

    settlement: Settlement


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """Make one fenced write that does not end the attempt."""

    note: Note


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadExpired:
    """Read which leases are past their deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """Cancel the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Replay the job if it is dead."""

    request: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove:
    """Delete the job, by force."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue:
    """Enqueue the job, perhaps as a new generation."""

    job: NewJob


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveClock:
    """Let time pass, or step the server's clock."""

    by_ms: int


Act = Claim | Renew | Settle | Write | ReadExpired | Cancel | Replay | Remove | Enqueue | MoveClock
Script = Generator[Act, Any, None]  # Any: each act has its own answer
Actor = Callable[[], Script]


def holder(
    name: str,
    happened: Happened,
    *,
    number: int,
    renews: int = 0,
    writes: int = 0,
    claims: int = 1,
    settles: int = 1,
) -> Actor:
    """Make a worker that claims, perhaps renews and reports, and settles what happened.

    Args:
        number: tells its settlement ids from those of the others.
        claims, settles: how often each is sent; more than once is a lost reply.
    """

    def script() -> Script:
        claimant = Claimant(worker=name, incarnation=name, request_id=f"request-{name}", takes_suspect=True)
        claimed = yield Claim(claimant=claimant)
        for _ in range(claims - 1):
            claimed = yield Claim(claimant=claimant)
        if not claimed.leases:
            return
        lease: Lease = claimed.leases[0]
        cancelled = lease.cancel_requested
        for _ in range(renews):
            answer = yield Renew(lease=lease)
            cancelled = cancelled or answer is Renewal.CANCEL_REQUESTED
        for _ in range(writes):
            yield Write(
                note=Note(job_id=JOB, fence=lease.fence, kind=NoteKind.CHECKPOINT, value=name.encode())
            )
        yield from _settle(lease, happened, number, cancelled=cancelled, times=settles)

    return script


def sweep(*, number: int, rounds: int = 1, settles: int = 1) -> Actor:
    """Make a sweep that reads expired leases and settles each in its dead holder's name."""

    def script() -> Script:
        for turn in range(rounds):
            leases = yield ReadExpired()
            for lease in leases:
                yield from _settle(lease, Silent(), number + turn, cancelled=False, times=settles)

    return script


def _settle(lease: Lease, happened: Happened, number: int, *, cancelled: bool, times: int) -> Script:
    settlement = decide(lease, happened, settlement_id=number * 10, retry=AGAIN, cancel_requested=cancelled)
    answer = yield Settle(settlement=settlement)
    if answer is Settled.CANCEL_REQUESTED:
        settlement = decide(
            lease, happened, settlement_id=number * 10 + 1, retry=AGAIN, cancel_requested=True
        )
        yield Settle(settlement=settlement)
    for _ in range(times - 1):
        yield Settle(settlement=settlement)


def canceller(times: int = 1) -> Actor:
    """Make an operator who cancels, and perhaps again."""

    def script() -> Script:
        for _ in range(times):
            yield Cancel()

    return script


def replayer(*, times: int = 1, requests: int = 1) -> Actor:
    """Make an operator who replays the dead letter; `times` above 1 repeat the same request."""

    def script() -> Script:
        for request in range(1, requests + 1):
            for _ in range(times):
                yield Replay(request=request)

    return script


def remover(then: NewJob) -> Actor:
    """Make an operator who deletes the job by force and enqueues the id anew."""

    def script() -> Script:
        yield Remove()
        yield Enqueue(job=then)

    return script


def enqueuer(job: NewJob, times: int = 1) -> Actor:
    """Make a producer of the job; more than once is a lost reply."""

    def script() -> Script:
        for _ in range(times):
            yield Enqueue(job=job)

    return script


def clock(*steps_ms: int) -> Actor:
    """Make the passing of time, a step of the server's clock each."""

    def script() -> Script:
        for by_ms in steps_ms:
            yield MoveClock(by_ms=by_ms)

    return script


def plain_job(**fields: Any) -> NewJob:  # Any: whatever fields of NewJob a scope is about
    """The one job that the actors fight over."""
    return NewJob(**{"id": JOB, "task": "explored", "payload": b"", "max_stalls": 9, **fields})


REUSABLE = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})
