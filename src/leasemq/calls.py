"""What is said of calls that were stored together: by queue, and of an id known with other arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasemq.errors import IdConflict
from leasemq.job import Job
from leasemq.protocol.model import Acceptance, Enqueued
from leasemq.protocol.names import shown


def is_conflict(enqueued: Enqueued) -> bool:
    """Whether the id was known with other arguments."""
    return enqueued.acceptance is Acceptance.EXISTING and not enqueued.same_payload


def conflict(queue: str, job_id: str, jobs: tuple[Job[Any] | None, ...] = ()) -> IdConflict:
    """Answer the error for a strict call; `jobs` are the handles of the others of its `enqueue_many`."""
    others = "; the other jobs of the call are stored" if len(jobs) > 1 else ""
    return IdConflict(
        f"job {shown(job_id)} is known in queue {shown(queue)} with other arguments; "
        f"choose another id, or leave strict=True out to get the known job{others}",
        jobs=jobs,
    )


def by_queue(queues: Sequence[str]) -> dict[str, list[int]]:
    """Answer the places of each queue, in order."""
    places: dict[str, list[int]] = {}
    for place, queue in enumerate(queues):
        places.setdefault(queue, []).append(place)
    return places
