"""Hears what backends push: jobs became waiting, a cancellation was requested. Hints only."""

from __future__ import annotations

from collections.abc import Callable

from leasemq.backend import Backend
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.model import Wake
from leasemq.worker.link import Link

WHO = "listen"


async def listen(
    backend: Backend,
    queues: tuple[str, ...],
    link: Link,
    *,
    timeout_ms: int,
    on_open: Callable[[], None],
    on_wake: Callable[[Wake], None],
) -> None:
    """Listen for ever; one that broke is opened again, and `on_open` says that pushes may be missing."""
    while True:
        try:
            async with backend.listen(queues) as listener:
                link.worked(WHO)
                on_open()
                while True:
                    on_wake(await listener.wait(timeout_ms))
        except (BackendUnavailable, IndeterminateWrite) as error:
            link.failed(WHO, error)
            on_open()
            await link.pause(WHO)
