"""What can be read of one shelf. See `leasemq.backend.Insight` for every promise."""

from __future__ import annotations

from itertools import islice

from leasemq.backends.memory.shelf import Shelf
from leasemq.backends.memory.stored import Stored
from leasemq.protocol.checks import check_cursor, events_after
from leasemq.protocol.insight import Counts, EventPage, Filter, Page, TrailPage, fitting
from leasemq.protocol.model import State
from leasemq.protocol.trail import TRAIL_PAGE, trail_after, trail_page

MAX_PAGE = 1_000


def counts(shelf: Shelf) -> Counts:
    """See `Insight.counts`."""
    longest = next(iter(shelf.waiting.values()), None)
    return Counts(
        queue=shelf.queue,
        accepted=shelf.counts["accepted"],
        removed=shelf.counts["removed"],
        refused=shelf.counts["refused"],
        stalls=shelf.counts["stalls"],
        releases=shelf.counts["releases"],
        paused=shelf.paused,
        oldest_waiting_ms=None if longest is None else shelf.clock() - longest.since_ms,
        **{state.value: shelf.counts[state] for state in State},
    )


def find(shelf: Shelf, where: Filter, cursor: str | None, limit: int) -> Page:
    """See `Insight.find`."""
    now = shelf.clock()
    past = None if cursor is None else check_cursor(cursor)
    way = 1 if where.oldest_first else -1
    matching = [
        job
        for job in sorted(shelf.jobs.values(), key=lambda job: way * job.accepted)
        if (past is None or way * job.accepted > way * past) and _matches(job, where, now)
    ]
    page = tuple(fitting(job.record(now) for job in matching[: min(limit, MAX_PAGE)]))
    more = len(matching) > len(page) and page
    return Page(jobs=page, cursor=str(matching[len(page) - 1].accepted) if more else None)


def _matches(job: Stored, where: Filter, now: int) -> bool:
    if where.states and job.state not in where.states:
        return False
    if where.task is not None and job.task != where.task:
        return False
    if where.id_prefix is not None and not job.ref.id.startswith(where.id_prefix):
        return False
    if where.reason is not None and job.reason != where.reason:
        return False
    age_ms = now - (job.created_ms if job.ended_ms is None else job.ended_ms)
    is_young_enough = where.newer_than_ms is None or age_ms <= where.newer_than_ms
    return is_young_enough and (where.older_than_ms is None or age_ms >= where.older_than_ms)


def events(shelf: Shelf, cursor: str | None, limit: int) -> EventPage:
    """See `Insight.events`."""
    if cursor is None:
        return EventPage(events=(), cursor=str(shelf.event_number))
    trimmed = shelf.event_number - len(shelf.events)
    after = trimmed if cursor == "" else events_after(shelf.queue, cursor, trimmed, shelf.event_number)
    start = after - trimmed
    page = tuple(told.event() for told in islice(shelf.events, start, start + limit))
    return EventPage(events=page, cursor=page[-1].cursor if page else str(after))


def trail(
    shelf: Shelf, job_id: str, generation: int | None, cursor: str | None, limit: int
) -> TrailPage | None:
    """See `Insight.trail`."""
    job = shelf.jobs.get(job_id)
    if job is None or generation not in (None, job.ref.generation):
        return None
    after = trail_after(cursor, job.ref, job.trail_number)
    kept = job.trail or ()
    oldest = kept[0].number if kept else 0
    newer = (entry for entry in kept if entry.number > after)
    return trail_page(job.ref, oldest, after, islice(newer, max(0, min(limit, TRAIL_PAGE))))
