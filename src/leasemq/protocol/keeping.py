"""How leases are kept: which to renew, when to look next, and which may have ended by the holder's own clock.

All instants here are the holder's: milliseconds of a clock that never steps and counts suspension,
read before the request was sent, so that the true deadline is never earlier than the one computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from leasemq.protocol.model import Fence
from leasemq.protocol.record import record

MARGIN_SHARE = 10  # a tenth of the lease
MARGIN_MOST_MS = 2_000
FIRST_BACKOFF_MS = 50
LONGEST_BACKOFF_MS = 1_000
LONGEST_RENEWAL_BACKOFF_MS = 500  # for leases of three seconds and more; of shorter ones a sixth
NEVER_MS = 1 << 62
RENEWAL_TAKES_MS = 100  # from a try to its answer, once the backend can be reached again


@record(frozen=True, slots=True, kw_only=True)
class Held:
    """One lease as its holder sees it."""

    serial: int  # the holder's own number of the attempt
    queue: str
    job_id: str
    fence: Fence
    lease_ms: int  # what a renewal asks for
    heartbeat_ms: int
    renew_at_ms: int
    stop_at_ms: int  # when its attempt must be stopped, unless it is renewed before
    last_ms: int | None = None  # renewed no more from then on: a time-out and one lease have passed
    is_short: bool = False  # claimed for less than a renewal asks for, and not renewed since


def held_since(held: Held, sent_ms: int) -> Held:
    """Answer the lease after a renewal that was sent then and granted."""
    return replace(
        held,
        renew_at_ms=NEVER_MS if held.renew_at_ms == NEVER_MS else sent_ms + held.heartbeat_ms,
        stop_at_ms=stop_at_ms(sent_ms, held.lease_ms, held.heartbeat_ms),
        is_short=False,
    )


def settling_since(held: Held, sent_ms: int) -> Held:
    """Answer the lease while its settlement is under way: a renewal would be refused by its own end.

    An answer that stays out for a heartbeat counts as lost, and the lease is renewed again, in good time.
    """
    return replace(held, renew_at_ms=max(held.renew_at_ms, sent_ms + held.heartbeat_ms, _late_ms(held)))


def left_alone(held: Held) -> Held:
    """Answer the lease while a transaction has its job locked, so that it cannot be renewed."""
    return replace(held, renew_at_ms=NEVER_MS)


def unsettled(held: Held) -> Held:
    """Answer the lease after its settlement did not get through, and may have been written all the same.

    It is repeated soon. A renewal before that might be refused, and noted on the job for nothing.
    """
    return replace(held, renew_at_ms=_late_ms(held))


def _late_ms(held: Held) -> int:
    """Answer when to renew a lease that is likely to be settled first: a heartbeat before it is too late."""
    sent_ms = held.stop_at_ms - held.lease_ms + margin_ms(held.lease_ms, held.heartbeat_ms)
    return max(sent_ms + held.heartbeat_ms, held.stop_at_ms - held.heartbeat_ms)


def ended(held: Held) -> Held:
    """Answer the lease of an attempt that is over: it is renewed until the settlement is answered."""
    return replace(held, last_ms=None)


def to_renew(held: Iterable[Held], now_ms: int) -> list[Held]:
    """Answer the leases to renew now: none, unless one is due; then those that are nearly due go along."""
    kept = [one for one in held if _will_be_renewed(one, now_ms)]
    if not any(one.renew_at_ms <= now_ms for one in kept):
        return []
    return [one for one in kept if one.renew_at_ms - one.heartbeat_ms // 4 <= now_ms]


def look_in_ms(held: Iterable[Held], now_ms: int) -> int | None:
    """Answer how long until the next renewal is due; None if nothing is held."""
    due = [one.renew_at_ms for one in held if _will_be_renewed(one, now_ms)]
    return max(0, min(due) - now_ms) if due else None


def _will_be_renewed(held: Held, now_ms: int) -> bool:
    return held.last_ms is None or max(held.renew_at_ms, now_ms) < held.last_ms


def margin_ms(lease_ms: int, heartbeat_ms: int) -> int:
    """Answer how long before the end of its lease an attempt must be stopped; after its renewal was due."""
    return min(lease_ms // MARGIN_SHARE, MARGIN_MOST_MS, (lease_ms - heartbeat_ms) // 2)


def stop_at_ms(sent_ms: int, lease_ms: int, heartbeat_ms: int) -> int:
    """Answer when an attempt must be stopped whose lease was asked for by a request that was sent then."""
    return sent_ms + lease_ms - margin_ms(lease_ms, heartbeat_ms)


def may_have_ended(held: Iterable[Held], now_ms: int) -> list[int]:
    """Answer the serials of the leases whose margin has begun."""
    return [one.serial for one in held if one.stop_at_ms <= now_ms]


def watch_in_ms(held: Collection[Held], now_ms: int) -> int | None:
    """Answer how long until the margin of a lease begins, if nothing is renewed; None: nothing is held.

    Never more than half a margin: a loop's timers stand still while the machine is suspended.
    """
    if not held:
        return None
    tick_ms = max(1, min(margin_ms(one.lease_ms, one.heartbeat_ms) for one in held) // 2)
    ahead = [one.stop_at_ms - now_ms for one in held if one.stop_at_ms > now_ms]
    return min([*ahead, tick_ms])


def retry_in_ms(held: Collection[Held], now_ms: int, failures: int, dice: float) -> int:
    """Answer how long to wait before failed renewals are tried again: less, as time runs out."""
    ahead = [one.stop_at_ms - now_ms for one in held if one.stop_at_ms > now_ms]
    spare_ms = min(ahead) // 4 if ahead else LONGEST_BACKOFF_MS
    longest_ms = min([_longest_retry_ms(one.lease_ms) for one in held], default=LONGEST_BACKOFF_MS)
    return min(backoff_ms(failures, dice, longest_ms), max(spare_ms, FIRST_BACKOFF_MS))


def heard_within_ms(lease_ms: int) -> int:
    """Answer how long a backend must have been reachable before a silent holder may be taken for dead.

    A holder that outlived an outage has tried to renew by then, however long the outage was.
    """
    return _longest_retry_ms(lease_ms) + min(RENEWAL_TAKES_MS, lease_ms // 12)


def _longest_retry_ms(lease_ms: int) -> int:
    return max(1, min(LONGEST_RENEWAL_BACKOFF_MS, lease_ms // 6))


def backoff_ms(failures: int, dice: float, longest_ms: int = LONGEST_BACKOFF_MS) -> int:
    """Answer how long to wait before trying again what could not reach the backend.

    Args:
        failures: tries in a row that failed; at least 1.
        dice: evenly spread in [0, 1): half of the delay is jitter.
    """
    whole_ms = min(FIRST_BACKOFF_MS << min(failures - 1, 20), longest_ms)
    return max(1, int(whole_ms * (0.5 + dice / 2)))
