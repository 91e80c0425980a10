"""Shows this life of the worker in the worker list for as long as it lives, with the jobs that it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from leasemq.backend import Backend
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.insight import WorkerInfo
from leasemq.worker.link import Link
from leasemq.worker.settings import ANNOUNCE_MS, ANNOUNCE_TTL_MS

# Reading it from the installed metadata would block the loop that a worker is made in.
VERSION = "0.1.0"  # the package's; a test compares it with pyproject.toml
WHO = "announce"
RETIRE_MS = 250
JOBS_SHOWN = 100
TASKS_SHOWN = 200
SETTLE_MS = 1_000  # a job that is over before that is not worth an announcement of its own
APART_MS = 4_000  # however often what it holds changes


async def announce(
    backend: Backend, link: Link, info: Callable[[], WorkerInfo], changed: asyncio.Event
) -> None:
    """Announce the worker for ever: regularly, and soon after what it holds has changed."""
    while True:
        told = info()
        try:
            await backend.announce(told, ANNOUNCE_TTL_MS)
        except (BackendUnavailable, IndeterminateWrite) as error:
            link.failed(WHO, error)
            await link.pause(WHO)
        else:
            link.worked(WHO)
            await _until_due(told, info, changed)


async def _until_due(told: WorkerInfo, info: Callable[[], WorkerInfo], changed: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(ANNOUNCE_MS / 1_000):
            await asyncio.sleep(APART_MS / 1_000)
            while info() == told:
                changed.clear()
                await changed.wait()
                await asyncio.sleep(SETTLE_MS / 1_000)
    except TimeoutError:
        pass


def tasks_shown(names: Iterable[str]) -> tuple[str, ...]:
    """Answer the names to announce; none if they are too many, for a part would deny the rest."""
    known = tuple(sorted(names))
    return known if len(known) <= TASKS_SHOWN else ()


async def retire(backend: Backend, incarnation: str) -> None:
    """Take this life out of the list, if that can be done at once; else its announcement runs out."""
    try:
        async with asyncio.timeout(RETIRE_MS / 1_000):
            await backend.retire(incarnation)
    except (BackendUnavailable, IndeterminateWrite, TimeoutError):
        pass
