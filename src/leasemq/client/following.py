"""Follow-ups carried out by whoever has just stored jobs that wait for others."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from leasemq.backend import Backend
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.model import NewJob
from leasemq.protocol.names import shown

logger: logging.Logger = logging.getLogger("leasemq")

_FOLLOW_UPS = 100  # of a queue's outbox, carried out by an enqueue that has parents


async def tell_parents(backend: Backend, queue: str, jobs: Iterable[NewJob]) -> None:
    """Tell the parents at once; any sweep would, later. The jobs are stored, so nothing is raised."""
    if not any(job.parents for job in jobs):
        return
    from leasemq.maintenance.followups import follow_up

    try:
        await follow_up(backend, queue, _FOLLOW_UPS)
    except (BackendUnavailable, IndeterminateWrite):
        pass
    except Exception:  # the outbox is everybody's: this caller must not hear of another job's fault
        logger.warning("follow-ups of queue %s are left to a sweep", shown(queue), exc_info=True)
