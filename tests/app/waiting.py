"""Waiting for a condition, in place of a sleep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(holds: Callable[[], bool]) -> None:
    """Let the loop turn until the condition holds."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  the condition is about somebody else's state, which sets no event
            await asyncio.sleep(0)
