"""Claim, and what else answers leases. See `Work.claim`, `Work.claimed_by`, `Work.expired`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from leasemq.backends.redis.calling import Calls
from leasemq.backends.redis.layout import CANCEL, SUSPECT, long, short
from leasemq.backends.redis.parsing import (
    NEVER_CLAIMED,
    PLAIN_BYTES,
    Run,
    Terms,
    body_of,
    head_of,
    plain_parts_of,
    run_of,
    terms_of,
)
from leasemq.errors import CorruptRecord
from leasemq.protocol.checks import check_lease
from leasemq.protocol.model import Claimant, Claimed, Fence, Lease, NothingClaimed, Ref
from leasemq.protocol.names import shown

_REASONS = (None, NothingClaimed.EMPTY, NothingClaimed.PAUSED)


async def claim(calls: Calls, queue: str, limit: int, lease_ms: int, claimant: Claimant) -> Claimed:
    """See `Work.claim`."""
    check_lease(lease_ms)
    return claimed(queue, await calls.ask("claim", queue, limit, lease_ms, *packed_claimant(claimant)))


async def claimed_by(calls: Calls, queue: str, incarnation: str) -> Sequence[Lease]:
    """See `Work.claimed_by`."""
    return leases(queue, *await calls.ask("claimed_by", queue, short(incarnation)))


async def expired(calls: Calls, queue: str, limit: int) -> Sequence[Lease]:
    """See `Work.expired`."""
    return leases(queue, *await calls.ask("expired", queue, limit))


def packed_claimant(claimant: Claimant) -> tuple[object, ...]:
    """Answer who claims, as taking.lua takes it."""
    names = (short(claimant.request_id), short(claimant.incarnation), claimant.worker.encode())
    return (*names, int(claimant.takes_suspect))


def claimed(queue: str, answer: Sequence[Any]) -> Claimed:
    """Answer what taking.lua answered."""
    found, terms, next_due_in_ms, next_lapse_in_ms, reason, suspect_waits, run_raw = answer
    return Claimed(
        leases=leases(queue, found, terms, run_raw),
        next_due_in_ms=None if next_due_in_ms < 0 else next_due_in_ms,
        next_lapse_in_ms=None if next_lapse_in_ms < 0 else next_lapse_in_ms,
        reason=_REASONS[reason],
        suspect_waits=suspect_waits == 1,
    )


def leases(queue: str, found: Sequence[Any], terms: Sequence[Any], run_raw: bytes = b"") -> tuple[Lease, ...]:
    """Answer leases, without those that cannot be read: a sweep ends them once they are over.

    Of a plain job `found` has the id, then the record; their run is `run_raw`.
    """
    return tuple(_readable(queue, found, terms_by_number(terms), run_raw))


def terms_by_number(flat: Sequence[Any]) -> dict[int, bytes]:
    """Answer the terms that a script told along with its records."""
    return dict(zip(map(int, flat[::2]), flat[1::2], strict=True))


def _readable(queue: str, found: Sequence[Any], blobs: dict[int, bytes], run_raw: bytes) -> Iterator[Lease]:
    seen = _Seen(blobs)
    plain = seen.run(run_raw) if run_raw else NEVER_CLAIMED
    fence = Fence(number=plain.fence, nonce=plain.nonce)
    pieces = iter(found)
    for piece in pieces:
        raw = next(pieces) if isinstance(piece, bytes) else b""
        try:
            if isinstance(piece, bytes):
                yield _plain_lease(queue, long(piece), raw, plain, fence, seen)
            else:
                yield _lease(queue, piece, seen)
        except ValueError:
            continue


class _Seen:
    """What leases of one claim have in common, read once. Owner: the answer that is being read."""

    def __init__(self, blobs: dict[int, bytes]) -> None:
        self._blobs = blobs
        self._runs: dict[bytes, Run] = {}
        self._terms: dict[int, Terms] = {}

    def run(self, raw: bytes) -> Run:
        """Answer a run. Raises: ValueError."""
        run = self._runs.get(raw)
        if run is None:
            run = self._runs[raw] = run_of(raw)
        return run

    def terms(self, number: int, inline: bytes) -> Terms:
        """Answer terms. Raises: ValueError."""
        if number == 0:
            return terms_of(inline)
        terms = self._terms.get(number)
        if terms is None:
            terms = self._terms[number] = terms_of(self._blobs.get(number))
        return terms


def _plain_lease(queue: str, id_: str, raw: bytes, run: Run, fence: Fence, seen: _Seen) -> Lease:
    created_ms, terms_number = plain_parts_of(raw)
    terms = seen.terms(terms_number, b"")
    return Lease(
        ref=Ref(queue=queue, id=id_, generation=1),
        fence=fence,
        task=terms.task,
        payload=raw[PLAIN_BYTES:],
        attempts=run.attempts,
        failures=0,
        stalls=0,
        max_stalls=terms.max_stalls,
        keep=terms.keep,
        created_ms=created_ms,
        lease_until_ms=run.lease_until_ms,
        incarnation=run.incarnation,
    )


def _lease(queue: str, piece: Sequence[Any], seen: _Seen) -> Lease:
    id_, raw, run_raw, checkpoint = piece
    run, head = seen.run(run_raw), head_of(raw, run_raw)
    payload, rare = body_of(raw, head)
    terms = seen.terms(head.terms, rare.terms)
    return Lease(
        ref=Ref(queue=queue, id=long(id_), generation=head.generation),
        fence=Fence(number=run.fence, nonce=run.nonce),
        task=terms.task,
        payload=payload,
        attempts=run.attempts,
        failures=run.failures,
        stalls=run.stalls,
        max_stalls=terms.max_stalls,
        keep=terms.keep,
        created_ms=head.created_ms,
        lease_until_ms=run.lease_until_ms,
        incarnation=run.incarnation,
        suspect=head.flags & SUSPECT != 0,
        cancel_requested=head.flags & CANCEL != 0,
        checkpoint=checkpoint,
        overrides=rare.overrides,
        headers=rare.headers,
    )


def unreadable(queue: str, id_: str, why: str) -> CorruptRecord:
    """Answer the error for a job whose record cannot be read."""
    return CorruptRecord(
        f"job {shown(id_)} of queue {shown(queue)} cannot be read: {why}; remove it, or restore the store"
    )
