"""What a test sees of jobs: the record with its arguments read, and what one run came to."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from leasemq.errors import JobFailed
from leasemq.protocol.failure import ErrorRecord, decode_error
from leasemq.protocol.insight import JobRecord
from leasemq.protocol.model import Outcome, State
from leasemq.protocol.names import shown

if TYPE_CHECKING:
    from leasemq.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenJob:
    """One stored job as it was when the test looked."""

    task: str
    arguments: Mapping[str, Any]  # by parameter; those left to their defaults are not in it
    record: JobRecord = field(repr=False)

    @property
    def id(self) -> str:
        """The job's id."""
        return self.record.ref.id

    @property
    def queue(self) -> str:
        """The queue that holds it."""
        return self.record.ref.queue

    @property
    def state(self) -> State:
        """Where it was."""
        return self.record.state

    @property
    def attempts(self) -> int:
        """How often it was claimed."""
        return self.record.attempts

    @property
    def error(self) -> ErrorRecord | None:
        """The newest error with type, message and traceback; None: there was none."""
        return None if self.record.error is None else decode_error(self.record.error, job=self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What one call of the harness ran: attempts by outcome, and the jobs as they were afterwards."""

    outcomes: Mapping[Outcome, int]
    jobs: Sequence[SeenJob]  # in the order in which they first ended an attempt
    crashes: int = 0

    @property
    def attempts(self) -> int:
        """How many attempts ended with a settlement."""
        return sum(self.outcomes.values())

    @property
    def completed(self) -> int:
        """How many completed."""
        return self.outcomes.get(Outcome.COMPLETED, 0)

    @property
    def retried(self) -> int:
        """How many attempts failed and are to be repeated."""
        return self.outcomes.get(Outcome.RETRIED, 0)

    @property
    def failed(self) -> int:
        """How many jobs became dead letters."""
        return self.outcomes.get(Outcome.FAILED, 0)


def seen(record: JobRecord, tasks: Mapping[str, Task[Any, Any]]) -> SeenJob:
    """Read a record with its arguments. Of a task that the app does not know they are left out."""
    task = tasks.get(record.task)
    if task is None:
        return SeenJob(task=record.task, arguments={}, record=record)
    positional, named = task.signature.decode_arguments(record.payload, job=record.ref.id)
    call = inspect.signature(task.function)
    given = ((None,) if task.takes_context else ()) + positional
    arguments = dict(call.bind(*given, **named).arguments)
    if task.takes_context:
        del arguments[next(iter(call.parameters))]
    return SeenJob(task=task.name, arguments=arguments, record=record)


def counted(outcomes: Sequence[Outcome]) -> Mapping[Outcome, int]:
    """Answer how often each outcome occurred."""
    return dict(Counter(outcomes))


def failure_of(job: SeenJob) -> JobFailed:
    """Answer an attempt's error as it is stored, for one that left no exception to raise."""
    error = job.error
    told = job.record.reason or "error"
    failed = JobFailed(
        f"job {shown(job.id)} of {job.task}: {told if error is None else f'{error.type}: {error.message}'}",
        error_type=told if error is None else error.type,
        error_message="" if error is None else error.message,
        traceback="" if error is None else error.traceback,
    )
    if error is not None:
        failed.add_note(error.traceback)
    return failed
