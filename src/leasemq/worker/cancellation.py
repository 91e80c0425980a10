"""Whose a cancellation is: the user's own code may raise one, and is not to be obeyed."""

from __future__ import annotations

import asyncio


def is_from_outside(error: BaseException) -> bool:
    """Whether the running task was told to end, and this error says so; else code in it made it up."""
    task = asyncio.current_task()
    # type(...), not isinstance: an exception's own __class__ may lie, or raise.
    return issubclass(type(error), asyncio.CancelledError) and task is not None and task.cancelling() > 0
