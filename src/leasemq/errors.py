"""Every exception of LeaseMQ, split by what the caller should do about it.

LeaseMQError
├── Refused                     fix the call: nothing was written
│   ├── InvalidSetting          a limit, duration or option out of range (also ValueError)
│   │   └── InvalidCursor       what no earlier page or event of this store gave
│   ├── InvalidName             a queue, id, key, task or namespace that is not allowed (also ValueError)
│   │   ├── InvalidQueueName
│   │   └── InvalidJobId
│   ├── NaiveDatetime           an instant without a time zone (also ValueError)
│   ├── InvalidDelay            a negative, non-finite or absurd duration (also ValueError)
│   ├── PayloadRejected         an argument that is not plain data of the declared type (also TypeError)
│   ├── PayloadTooLarge         encoded arguments, checkpoint or progress over the limit
│   ├── KeyFailed               an `id=` or `unique=` function that raised, or made no text
│   ├── UnnamedTask             a task of `__main__` without `name=`
│   ├── IdConflict              a known id with another payload, where strictness was asked for; the rest
│   │                           of an `enqueue_many` is stored, and `jobs` has its handles
│   ├── UniqueConflict          a replay whose unique key is held by another job
│   ├── IllegalMove             an operator's action that the job's state does not allow
│   ├── WouldDeadlock           waiting for a result inside a handler, or for one's own transaction
│   ├── InvalidSession          a session that is none, is closed, in autocommit, or of another database
│   ├── SyncInsideLoop          a synchronous call inside a running event loop
│   └── CursorExpired           an event cursor that was trimmed away
├── Unsupported                 fix the program: the backend or install cannot do this
│   ├── UnknownScheme           a URL whose scheme no backend answers to
│   ├── MissingExtra            a backend whose driver is not installed
│   ├── DurabilityTooLow        a backend below `require_durability`
│   └── SchemaTooNew            a store written by a newer release
├── LeaseLost                   stop: this attempt no longer owns the job
├── BackendUnavailable          try again: it did not happen
│   └── BackendFull             free space first, then try again
├── IndeterminateWrite          it may or may not have happened: repeat with the same id
├── CorruptRecord               stored bytes that cannot be read
│   └── UnknownEnvelope         stored by a release newer than this one
├── ArgumentMismatch            readable arguments that do not fit the function
├── ResultMismatch              a readable result that is not of the declared return type
├── ResultNotSerializable       a result that is not plain data of the declared type
├── ResultTooLarge              an encoded result over the limit
├── HandlerTimeout              a handler that outran its `timeout=`
├── ChildCrashed                a child process that ended while its handler ran
├── ChildRaised                 what a handler in a child process raised, as middleware sees it
├── HookFailed                  a start hook that raised, so that its worker claimed nothing
├── JobEnded                    what waiting for a result can find
│   ├── JobFailed
│   ├── JobCancelled
│   ├── JobExpired
│   └── ResultExpired
├── JobNotFound                 no such job
├── WorkerNotFound              no such worker in the list
├── WaitTimeout                 the waiter's own time ran out; the job goes on (also TimeoutError)
├── VirtualTimeStuck            a test's virtual loop with nothing left to do
└── Verdict                     raised *by* a handler to say how its attempt ends
    ├── RetryAfter              run again after this long; spends a retry
    ├── Snooze                  run again after this long; spends nothing
    └── Dead                    give up at once
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any


class LeaseMQError(Exception):
    """The base of everything LeaseMQ raises."""


class Refused(LeaseMQError):
    """The call was refused, and nothing was written of what was refused."""


class InvalidSetting(Refused, ValueError):
    """A setting is out of range; the message names the field and the value."""


class InvalidCursor(InvalidSetting):
    """A cursor is broken, or of another store, another list or another job."""


class InvalidName(Refused, ValueError):
    """A name is not 1 to 256 bytes of UTF-8 without control characters."""


class InvalidQueueName(InvalidName):
    """A queue's name is not allowed."""


class InvalidJobId(InvalidName):
    """A job id is not allowed."""


class NaiveDatetime(Refused, ValueError):
    """An instant was given without a time zone."""


class InvalidDelay(Refused, ValueError):
    """A duration is negative, not finite, or beyond the documented maximum."""


class PayloadRejected(Refused, TypeError):
    """An argument is not plain data of its declared type; the message names its path."""


class PayloadTooLarge(Refused):
    """An encoded value is over its limit; the message gives size, limit and place."""


class KeyFailed(Refused):
    """The function that makes the id or the unique key of a call raised, or made no text."""


class UnnamedTask(Refused):
    """A task defined in `__main__` has no name that another process could know it by."""


class IdConflict(Refused):
    """The id is known with a different payload, and strictness was asked for.

    `jobs` are the handles (`Job`) that an `enqueue_many` would have answered: the other jobs are stored,
    and None stands for each that is not. It is empty after an `enqueue`.
    """

    def __init__(self, message: str, *, jobs: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.jobs = jobs


class UniqueConflict(Refused):
    """The job's unique key is held by another job, which the message names."""


class IllegalMove(Refused):
    """The job's state does not allow this action; the message names both."""


class WouldDeadlock(Refused):
    """A handler waits for another job's result without `allow_wait=True`, or for its own transaction."""


class InvalidSession(Refused):
    """A session cannot take a job into its transaction; the message says what to give instead."""


class SyncInsideLoop(Refused):
    """A synchronous call was made inside a running event loop; await the async twin."""


class CursorExpired(Refused):
    """Events after this cursor were trimmed, or lost by the backend; `earliest` is the oldest cursor left."""

    def __init__(self, message: str, *, earliest: str) -> None:
        super().__init__(message)
        self.earliest = earliest


class Unsupported(LeaseMQError):
    """What was asked for is not possible with this backend or installation."""


class UnknownScheme(Unsupported):
    """No backend answers to the URL's scheme."""


class MissingExtra(Unsupported):
    """The backend's driver is not installed; the message names the extra."""


class DurabilityTooLow(Unsupported):
    """The backend's durability class is below the one required."""


class SchemaTooNew(Unsupported):
    """The store was written by a newer release than this one can serve."""


class LeaseLost(LeaseMQError):
    """The attempt's fence is no longer the newest, or the job is not active."""


class BackendUnavailable(LeaseMQError):
    """The backend could not be reached or refused; the operation did not happen."""


class BackendFull(BackendUnavailable):
    """The backend has no space left; the operation did not happen."""


class IndeterminateWrite(LeaseMQError):
    """The answer was lost: the write may or may not have been applied. Repeat it with the same id.

    `job_id` is the id of the job whose enqueue is in doubt; None for other writes.
    """

    def __init__(self, message: str, *, job_id: str | None = None) -> None:
        super().__init__(message)
        self.job_id = job_id


class CorruptRecord(LeaseMQError):
    """Stored bytes cannot be read; the message names the job and what is wrong."""


class UnknownEnvelope(CorruptRecord):
    """The bytes carry a version that this release does not know."""

    def __init__(self, message: str, *, version: int) -> None:
        super().__init__(message)
        self.version = version


class ArgumentMismatch(LeaseMQError):
    """Readable arguments do not fit the function's signature."""


class ResultMismatch(LeaseMQError):
    """A readable result is not of the return type that the task declares here."""


class ResultNotSerializable(LeaseMQError):
    """A result is not plain data of the declared type; the message names its path."""


class ResultTooLarge(LeaseMQError):
    """An encoded result is over its limit; the message gives size and limit."""


class HandlerTimeout(LeaseMQError):
    """A handler ran longer than its `timeout=` allows."""


class ChildCrashed(LeaseMQError):
    """The process that ran the handler ended; the message names its exit code or signal."""


class ChildRaised(LeaseMQError):
    """What a handler in a child process raised: its qualified name, message and traceback as text."""

    def __init__(self, message: str, *, error_type: str, error_message: str, traceback: str) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.error_message = error_message
        self.traceback = traceback


class HookFailed(LeaseMQError):
    """A start hook raised, so its worker claimed nothing; the message names the hook."""


class JobEnded(LeaseMQError):
    """The job ended without a value to return."""


class JobFailed(JobEnded):
    """The job failed; carries the error's qualified name, message and remote traceback text.

    `error` is the exception itself, made again, if it is one that the task declares (`raises=`); else None.
    """

    def __init__(
        self,
        message: str,
        *,
        error_type: str,
        error_message: str,
        traceback: str,
        error: Exception | None = None,
    ) -> None:
        super().__init__(message)
        self.error = error
        self.error_type = error_type
        self.error_message = error_message
        self.traceback = traceback


class JobCancelled(JobEnded):
    """The job was cancelled."""


class JobExpired(JobEnded):
    """The job was not started within its time to live."""


class ResultExpired(JobEnded):
    """The job completed, but its result is no longer kept (or belongs to another generation)."""


class JobNotFound(LeaseMQError):
    """No job has this queue and id."""


class WorkerNotFound(LeaseMQError):
    """No worker of this name or incarnation has announced itself lately."""


class WaitTimeout(LeaseMQError, TimeoutError):
    """The waiter's time ran out; the job is not touched. `job` is the handle that waited."""

    def __init__(self, message: str, *, job: Any = None) -> None:
        super().__init__(message)
        self.job = job


class VirtualTimeStuck(LeaseMQError):
    """A virtual-time loop has nothing ready, no timer left and an unfinished main coroutine."""


class Verdict(LeaseMQError):
    """Raised by a handler to decide how its attempt ends."""


class RetryAfter(Verdict):
    """Run the job again after `delay` (seconds or timedelta); counts as a failure and spends a retry.

    Without a retry policy, or with none left, the job fails: `Snooze` spends nothing.
    """

    def __init__(self, delay: float | timedelta, reason: str = "") -> None:
        super().__init__(reason or f"retry after {delay}")
        self.delay = delay
        self.reason = reason


class Snooze(Verdict):
    """Run the job again after `delay` (seconds or timedelta); spends no budget."""

    def __init__(self, delay: float | timedelta) -> None:
        super().__init__(f"snooze for {delay}")
        self.delay = delay


class Dead(Verdict):
    """End the job as failed now, whatever its retry policy says."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
