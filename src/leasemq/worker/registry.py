"""Shows this life of the worker in the worker list for as long as it lives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from leasemq.backend import Backend
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.insight import WorkerInfo
from leasemq.worker.link import Link
from leasemq.worker.settings import ANNOUNCE_MS, ANNOUNCE_TTL_MS

# Reading it from the installed metadata would block the loop that a worker is made in.
VERSION = "0.1.0"  # the package's; a test compares it with pyproject.toml
WHO = "announce"
RETIRE_MS = 250


async def announce(backend: Backend, link: Link, info: Callable[[], WorkerInfo]) -> None:
    """Announce the worker for ever."""
    while True:
        try:
            await backend.announce(info(), ANNOUNCE_TTL_MS)
        except (BackendUnavailable, IndeterminateWrite) as error:
            link.failed(WHO, error)
            await link.pause(WHO)
        else:
            link.worked(WHO)
            await asyncio.sleep(ANNOUNCE_MS / 1_000)


async def retire(backend: Backend, incarnation: str) -> None:
    """Take this life out of the list, if that can be done at once; else its announcement runs out."""
    try:
        async with asyncio.timeout(RETIRE_MS / 1_000):
            await backend.retire(incarnation)
    except (BackendUnavailable, IndeterminateWrite, TimeoutError):
        pass
