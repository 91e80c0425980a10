"""How a job stands in one shelf. See `leasemq.backend.Insight`."""

from __future__ import annotations

from itertools import islice

from leasemq.backends.memory.shelf import Shelf
from leasemq.backends.memory.stored import Stored
from leasemq.protocol.model import Ref, State
from leasemq.protocol.standing import AHEAD_LIMIT, ALONE_LIMIT, Standing


def standing(shelf: Shelf, job_id: str) -> Standing | None:
    """See `Insight.standing`."""
    merged = shelf.jobs.get(shelf.aliases.get(job_id, ""))
    job = shelf.jobs.get(job_id) or merged
    if job is None:
        return None
    running = (each for each in shelf.active.values() if each.suspect)
    reserved_for, reserved_until_ms = shelf.suspect_for
    return Standing(
        now_ms=shelf.clock(),
        record=job.record(shelf.clock()),
        merged_into=None if merged is None else merged.ref,
        paused=shelf.paused,
        ahead=_ahead(shelf, job) if job.state is State.WAITING else 0,
        suspect_waits=any(each.suspect and _is_fresh(shelf, each) for each in shelf.waiting.values()),
        reserved_for=reserved_for,
        reserved_until_ms=reserved_until_ms,
        alone=tuple(islice(sorted({each.incarnation for each in running}), ALONE_LIMIT)),
        key_holder=_key_holder(shelf, job),
    )


def _ahead(shelf: Shelf, job: Stored) -> int:
    mine = (-job.priority, job.order)
    lane = (each for each in shelf.waiting.values() if each.suspect == job.suspect)
    ahead = (each for each in lane if (-each.priority, each.order) < mine and _is_fresh(shelf, each))
    return sum(1 for _ in islice(ahead, AHEAD_LIMIT))


def _is_fresh(shelf: Shelf, job: Stored) -> bool:
    return job.expires_ms is None or job.expires_ms > shelf.clock()


def _key_holder(shelf: Shelf, job: Stored) -> Ref | None:
    hold = None if job.unique is None else shelf.holder(job.unique.key)
    return None if hold is None else hold.ref
