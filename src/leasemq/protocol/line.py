"""Why a job that waits has not been taken yet: who could take it, and who comes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from leasemq.protocol.insight import WorkerInfo
from leasemq.protocol.names import shown
from leasemq.protocol.reasons import Plain, Reason, Why, at, many
from leasemq.protocol.standing import AHEAD_LIMIT, Standing
from leasemq.protocol.times import iso_utc


def nobody_for(queue: str, task: str, workers: Sequence[WorkerInfo]) -> Reason | None:
    """Answer that no live worker takes jobs of this queue, or none that knows the task; None: one does."""
    on_queue = [worker for worker in workers if queue in worker.queues]
    if not on_queue:
        others = sorted({name for worker in workers for name in worker.queues})
        have = (
            f"; the {many(len(workers), 'live worker')} work on {_listed(others)}"
            if workers
            else ": none is live at all"
        )
        return Reason(
            kind=Why.NO_WORKER,
            says=f"No live worker works on queue {shown(queue)}{have}",
            remedy=f"leasemq worker MODULE:APP --queues {shown(queue)}",
            values={"queue": queue, "workers": len(workers), "queues_worked_on": others},
        )
    if any(_knows(worker, task) for worker in on_queue):
        return None
    known = sorted({name for worker in on_queue for name in worker.tasks})
    return Reason(
        kind=Why.NO_TASK,
        says=f"No live worker on queue {shown(queue)} knows task {shown(task)}; the"
        f" {many(len(on_queue), 'worker there knows', 'workers there know')} {_listed(known)}",
        remedy="deploy the code of the task to a worker of this queue, or give a task this name as an alias",
        values={"task": task, "workers": len(on_queue), "tasks_known": known},
    )


def in_line(standing: Standing, workers: Sequence[WorkerInfo]) -> Iterator[Reason]:
    """Yield why a job that a claim would take has not been taken; some live worker can."""
    record = standing.record
    capable = [one for one in workers if record.ref.queue in one.queues and _knows(one, record.task)]
    if record.suspect:
        yield _suspect(standing, workers)
    else:
        kept = _kept_apart(standing, workers)
        free = [one for one in capable if (one.host, one.pid) not in kept]
        if not free:
            yield _making_way(standing, capable)
        elif all(one.running >= one.slots for one in free):
            yield _no_slot(standing, free)
    if standing.ahead:
        yield _behind(standing)
    elif not record.suspect:
        slots = sum(max(0, one.slots - one.running) for one in capable)
        yield Reason(
            kind=Why.NEXT,
            says="It is next in line: the next claim of this queue by a worker with a free slot takes it",
            values={"ahead": 0, "free_slots": slots, "workers": len(capable)},
        )


def worker_values(worker: str, incarnation: str, seen: WorkerInfo | None) -> dict[str, Plain]:
    """Answer who a worker is; host and pid only as long as it is in the worker list."""
    return {
        "worker": worker,
        "incarnation": incarnation,
        "host": None if seen is None else seen.host,
        "pid": None if seen is None else seen.pid,
    }


def _knows(worker: WorkerInfo, task: str) -> bool:
    return not worker.tasks or task in worker.tasks


def _is_reserved(standing: Standing) -> bool:
    is_due = standing.reserved_until_ms > standing.now_ms
    return standing.suspect_waits and standing.reserved_for != "" and is_due


def _kept_apart(standing: Standing, workers: Sequence[WorkerInfo]) -> set[tuple[str, int]]:
    """The processes that run empty for a suspect or run one: no worker in them claims anything else."""
    lives = {*standing.alone, *([standing.reserved_for] if _is_reserved(standing) else [])}
    return {(one.host, one.pid) for one in workers if one.incarnation in lives}


def _suspect(standing: Standing, workers: Sequence[WorkerInfo]) -> Reason:
    record, now = standing.record, standing.now_ms
    seen = next((one for one in workers if one.incarnation == standing.reserved_for), None)
    values: dict[str, Plain] = {"stalls": record.stalls, "max_stalls": record.max_stalls}
    if _is_reserved(standing):
        name = standing.reserved_for if seen is None else seen.worker
        who = (
            f"worker {shown(name)} lets its slots run empty for the first such job of the queue, until"
            f" {at(standing.reserved_until_ms, now)} at the latest"
        )
        values |= worker_values(name, standing.reserved_for, seen)
        values["reserved_until"] = iso_utc(standing.reserved_until_ms)
    else:
        who = "no worker runs empty for it yet; the next one that claims does"
    return Reason(
        kind=Why.SUSPECT,
        says=f"It stalled {many(record.stalls, 'time')} of at most {record.max_stalls}: its next stall is its"
        f" last, so it waits to run alone in a process; {who}",
        remedy="see what its earlier attempts did to their workers; cancel it if it must not run again",
        values=values,
    )


def _making_way(standing: Standing, capable: Sequence[WorkerInfo]) -> Reason:
    runs = f"{many(len(standing.alone), 'worker runs', 'workers run')} one" if standing.alone else ""
    empties = "one lets its slots run empty for one" if _is_reserved(standing) else ""
    doing = " and ".join(part for part in (runs, empties) if part)
    return Reason(
        kind=Why.MAKING_WAY,
        says="Every worker that could take it is kept for jobs that must run alone, because their next stall"
        f" is their last: {doing}",
        remedy="start another worker process on this queue",
        values={"workers": len(capable), "running_alone": list(standing.alone)},
    )


def _no_slot(standing: Standing, free: Sequence[WorkerInfo]) -> Reason:
    slots = sum(one.slots for one in free)
    oldest_ms = min(one.seen_ms for one in free)
    return Reason(
        kind=Why.NO_SLOT,
        says=f"All {many(slots, 'slot')} of the {many(len(free), 'live worker')} that could take it are"
        f" taken, as they told {at(oldest_ms, standing.now_ms)} or later",
        remedy="start more workers on this queue, or give them more slots with --concurrency",
        values={"slots": slots, "workers": len(free), "told_at": iso_utc(oldest_ms)},
    )


def _behind(standing: Standing) -> Reason:
    least = "at least " if standing.ahead >= AHEAD_LIMIT else ""
    alone = ("job that must run alone", "jobs that must run alone")
    lane = alone if standing.record.suspect else ("job", "jobs")
    return Reason(
        kind=Why.BEHIND,
        says=f"It is behind {least}{many(standing.ahead, *lane)} of its queue, by priority, then age",
        remedy=f"leasemq reprioritise, to move it ahead; its priority is {standing.record.priority}",
        values={
            "ahead": standing.ahead,
            "ahead_is_at_least": standing.ahead >= AHEAD_LIMIT,
            "priority": standing.record.priority,
        },
    )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 5:,} more" if len(names) > 5 else ""
    return ", ".join(shown(name) for name in names[:5]) + more
