"""Repeating a request by which the backend knows the repeat: while that is in time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from leasemq.client.storing import PATIENCE_MS
from leasemq.clock import boot_ms
from leasemq.errors import BackendUnavailable, IndeterminateWrite

T = TypeVar("T")

_FIRST_PAUSE_MS = 20
_LONGEST_PAUSE_MS = 500


async def until_answered(ask: Callable[[], Awaitable[T]], *, patience_ms: int = PATIENCE_MS) -> T:
    """Ask until there is an answer; `ask` sends the same request id each time.

    Raises: BackendUnavailable if it did not happen in all that time, IndeterminateWrite if it may have.
    """
    began_ms = boot_ms()
    pause_ms = _FIRST_PAUSE_MS
    doubt: IndeterminateWrite | None = None
    while True:
        try:
            return await ask()
        except BackendUnavailable as error:
            fault: BackendUnavailable | IndeterminateWrite = error
        except IndeterminateWrite as error:
            fault = doubt = error
        wait_ms = random.uniform(pause_ms / 2, pause_ms)  # noqa: S311  spreads callers, guards nothing
        if boot_ms() - began_ms + wait_ms > patience_ms:
            raise doubt or fault
        await asyncio.sleep(wait_ms / 1_000)
        pause_ms = min(pause_ms * 2, _LONGEST_PAUSE_MS)
