"""What every backend refuses before it writes anything, so that all refuse the same."""

from __future__ import annotations

from collections.abc import Sequence

from leasemq.errors import InvalidSetting
from leasemq.protocol.insight import Schedule
from leasemq.protocol.model import PRIORITIES, NewJob, Unique, UniqueMode
from leasemq.protocol.names import check_job_id, check_key, check_queue, check_task_name, shown_value

MAX_BATCH = 1_000


def check_new_jobs(queue: str, jobs: Sequence[NewJob]) -> None:
    """Check a whole batch. Raises: InvalidQueueName, InvalidJobId, InvalidName, InvalidSetting."""
    check_queue(queue)
    for job in jobs:
        _check_new_job(job)


def check_priority(priority: int) -> int:
    """Answer the priority. Raises: InvalidSetting."""
    if type(priority) is not int or priority not in PRIORITIES:
        raise InvalidSetting(f"priority {shown_value(priority)} is not an integer from -100 to 100")
    return priority


def check_limit(limit: int) -> int:
    """Answer the size of a bounded step. Raises: InvalidSetting."""
    if type(limit) is not int or not 0 <= limit <= MAX_BATCH:
        raise InvalidSetting(f"limit {shown_value(limit)} is not an integer from 0 to {MAX_BATCH}")
    return limit


def check_schedule(schedule: Schedule) -> None:
    """Check a schedule's names. Raises: InvalidName, InvalidQueueName."""
    check_key(schedule.name)
    check_queue(schedule.queue)


def _check_new_job(job: NewJob) -> None:
    check_job_id(job.id)
    check_task_name(job.task)
    check_priority(job.priority)
    if job.delay_ms or job.ttl_ms is not None or job.max_stalls != 2:
        _check_not_negative("delay_ms", job.delay_ms)
        _check_not_negative("ttl_ms", job.ttl_ms)
        _check_not_negative("max_stalls", job.max_stalls)
    if job.unique is not None:
        _check_unique(job.unique)
    for parent in job.parents:
        check_queue(parent.queue)
        check_job_id(parent.id)


def _check_unique(unique: Unique) -> None:
    check_key(unique.key)
    _check_not_negative("window_ms", unique.window_ms)
    if unique.window_ms is None and unique.mode in (UniqueMode.DEBOUNCE, UniqueMode.THROTTLE):
        raise InvalidSetting(f"unique mode {unique.mode.value} needs a window; window_ms is None")


def _check_not_negative(field: str, value: int | None) -> None:
    if value is not None and (type(value) is not int or value < 0):
        raise InvalidSetting(f"{field} is {shown_value(value)}; use an integer of 0 or more")
