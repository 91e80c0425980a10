"""Claim, and what reads leases. See `Work.claim`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from leasemq.backends.postgres.store import Store
from leasemq.backends.postgres.wire import Row
from leasemq.protocol.checks import check_lease
from leasemq.protocol.model import (
    Advanced,
    Claimant,
    Claimed,
    Fence,
    Keep,
    Lease,
    NothingClaimed,
    Ref,
)


async def claim(store: Store, queue: str, limit: int, lease_ms: int, claimant: Claimant) -> Claimed:
    """See `Work.claim`."""
    check_lease(lease_ms)
    rows = await store.call(
        "claim", store.now_ms, store.channel, queue, *claim_arguments(limit, lease_ms, claimant)
    )
    return claimed(queue, rows, claimant)


def claim_arguments(limit: int, lease_ms: int, claimant: Claimant) -> tuple[object, ...]:
    """Answer the arguments of claim.sql after the queue."""
    return (
        max(limit, 0),
        lease_ms,
        claimant.worker,
        claimant.incarnation,
        claimant.request_id,
        claimant.takes_suspect,
    )


def claimed(queue: str, rows: Sequence[Row], claimant: Claimant) -> Claimed:
    """Answer what the rows of claim.sql say; the last one is about the queue."""
    *leases, about = rows
    nonce, incarnation, until_ms = claimant.request_id, claimant.incarnation, about[12]
    return Claimed(
        leases=tuple(
            Lease(
                ref=Ref(queue=queue, id=row[0], generation=row[1]),
                fence=Fence(number=row[2], nonce=nonce),
                task=row[3],
                payload=row[4],
                attempts=row[5],
                failures=row[6] or 0,
                stalls=row[7] or 0,
                max_stalls=row[8],
                keep=_keep(row[9], row[10], row[11]),
                created_ms=row[12],
                lease_until_ms=row[13] or until_ms,
                suspect=row[14] or False,
                cancel_requested=row[15] or False,
                checkpoint=row[16],
                overrides=row[17] or b"",
                headers=row[18] or b"",
                incarnation=row[19] or incarnation,
            )
            for row in leases
        ),
        next_due_in_ms=about[2],
        next_lapse_in_ms=about[13],
        reason=None if about[3] is None else NothingClaimed(about[3]),
        suspect_waits=about[14],
    )


async def claimed_by(store: Store, queue: str, incarnation: str) -> Sequence[Lease]:
    """See `Work.claimed_by`."""
    return _leases(queue, await store.call("claimed_by", queue, incarnation))


async def expired(store: Store, queue: str, limit: int) -> Sequence[Lease]:
    """See `Work.expired`."""
    return _leases(queue, await store.call("expired", store.now_ms, queue, limit))


async def advance(store: Store, queue: str, limit: int) -> Advanced:
    """See `Work.advance`."""
    ((promoted, lapsed, next_due_in_ms),) = await store.call(
        "advance", store.now_ms, store.channel, queue, limit
    )
    return Advanced(promoted=promoted, expired=lapsed, next_due_in_ms=next_due_in_ms)


def _leases(queue: str, rows: Sequence[Row]) -> Sequence[Lease]:
    return tuple(
        Lease(
            ref=Ref(queue=queue, id=row[0], generation=row[1]),
            fence=Fence(number=row[2], nonce=row[3]),
            task=row[4],
            payload=row[5],
            attempts=row[6],
            failures=row[7],
            stalls=row[8],
            max_stalls=row[9],
            keep=_keep(row[10], row[11], row[12]),
            created_ms=row[13],
            lease_until_ms=row[14],
            incarnation=row[15],
            suspect=row[16],
            cancel_requested=row[17],
            checkpoint=row[18],
            overrides=row[19],
            headers=row[20],
        )
        for row in rows
    )


@lru_cache(maxsize=256)
def _keep(result_ms: int, record_ms: int, dead_ms: int) -> Keep:
    """Answer the retention; jobs of one task share one."""
    return Keep(result_ms=result_ms, record_ms=record_ms, dead_ms=dead_ms)
