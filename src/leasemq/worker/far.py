"""A run in a child process as the middleware around it sees it: a value or an error, in place of bytes."""

from __future__ import annotations

import asyncio
from typing import assert_never

from leasemq.errors import ChildRaised, Dead, LeaseMQError, RetryAfter, Snooze
from leasemq.protocol.decide import (
    Happened,
    Hopeless,
    Interrupted,
    Raised,
    Reason,
    Returned,
    Silent,
    Snoozed,
    Unfit,
)
from leasemq.protocol.failure import decode_error
from leasemq.worker.attempt import Attempt
from leasemq.worker.processes import Processes
from leasemq.worker.threads import Done


class FarCall:
    """One attempt's run in a child. Owner: the attempt's task.

    What middleware passes on as it was counts as the child has judged it; anything else is judged anew.
    """

    def __init__(self, attempt: Attempt, processes: Processes) -> None:
        self.happened: Happened | None = None
        self._attempt = attempt
        self._processes = processes
        self._seen: object = None

    async def run(self) -> Happened | None:
        """Run it, and answer what happened; None: the lease is lost."""
        self.happened = await self._processes.run(self._attempt)
        return self.happened

    async def see(self) -> Done:
        """Run it, and answer what stands for what happened."""
        done = self._shown(await self.run())
        self._seen = done.value if done.error is None else done.error
        return done

    def is_answer(self, passed: object) -> bool:
        """Whether this is the very value or error that the run was shown as."""
        return self.happened is not None and passed is self._seen

    def _shown(self, happened: Happened | None) -> Done:
        match happened:
            case Returned(result=result):
                try:
                    return Done(self._attempt.routine.signature.decode_result(result), None)
                except LeaseMQError as error:  # the declared type here is not the child's
                    return Done(None, error)
            case Snoozed(delay_ms=delay_ms):
                return Done(None, Snooze(delay_ms / 1_000))
            case Raised(error=error, after_ms=int() as after_ms):
                return Done(None, RetryAfter(after_ms / 1_000, decode_error(error).message))
            case Hopeless(error=error, reason=Reason.DEAD):
                return Done(None, Dead(decode_error(error).message))
            case Raised(error=error) | Hopeless(error=error):
                return Done(None, _raised(error))
            case Interrupted() | Unfit() | Silent() | None:
                return Done(None, asyncio.CancelledError())
            case _:
                assert_never(happened)


def _raised(stored: bytes) -> ChildRaised:
    record = decode_error(stored)
    return ChildRaised(
        f"{record.type}: {record.message}",
        error_type=record.type,
        error_message=record.message,
        traceback=record.traceback,
    )
