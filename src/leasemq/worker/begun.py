"""What a claim brought, with what this worker knows of it: how long it may run, and how its lease is kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from leasemq.errors import CorruptRecord
from leasemq.protocol.keeping import Held, stop_at_ms
from leasemq.protocol.model import Lease
from leasemq.protocol.overrides import NO_OVERRIDES, Overrides, decode_overrides
from leasemq.worker.routine import Routine
from leasemq.worker.settings import WorkerSettings


class Begun(NamedTuple):
    """One lease on its way to its function."""

    serial: int
    lease: Lease
    routine: Routine | None  # None: no function of that name is known
    own: Overrides


def kept(begun: Iterable[Begun], settings: WorkerSettings, sent_ms: int, lease_ms: int) -> list[Held]:
    """Answer how the leases of one claim are kept. It was sent at `sent_ms`, and asked for `lease_ms`."""
    claimed_heartbeat_ms = settings.heartbeat_for(lease_ms)
    stop_ms = stop_at_ms(sent_ms, lease_ms, claimed_heartbeat_ms)
    held: list[Held] = []
    for serial, lease, routine, own in begun:
        wanted_ms = own.lease_ms or (routine and routine.lease_ms) or settings.lease_ms
        timeout_ms = own.timeout_ms or (routine and routine.timeout_ms)
        is_as_claimed = wanted_ms == lease_ms
        heartbeat_ms = claimed_heartbeat_ms if is_as_claimed else settings.heartbeat_for(wanted_ms)
        held.append(
            Held(
                serial=serial,
                queue=lease.ref.queue,
                job_id=lease.ref.id,
                fence=lease.fence,
                lease_ms=wanted_ms,
                heartbeat_ms=heartbeat_ms,
                renew_at_ms=sent_ms + min(heartbeat_ms, claimed_heartbeat_ms),
                stop_at_ms=stop_ms,
                last_ms=sent_ms + timeout_ms + wanted_ms if timeout_ms else None,
                is_short=wanted_ms > lease_ms,
            )
        )
    return held


def overrides(lease: Lease) -> Overrides:
    """Answer what the job brings itself; unreadable ones are reported when it is run."""
    try:
        return decode_overrides(lease.overrides) if lease.overrides else NO_OVERRIDES
    except CorruptRecord:
        return NO_OVERRIDES
