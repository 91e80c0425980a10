"""Asking why: the question put to a backend, and workers that announce themselves for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leasemq.client.explaining import explained
from leasemq.protocol.decide import Raised, decide
from leasemq.protocol.failure import ErrorRecord, encode_error
from leasemq.protocol.insight import WorkerInfo
from leasemq.protocol.model import Acceptance, Lease, Settlement
from leasemq.protocol.reasons import Reason, Why
from leasemq.protocol.why import Asked
from leasemq.testing.conformance import builders
from leasemq.testing.conformance.builders import HOUR_MS
from leasemq.testing.conformance.queue_under_test import QueueUnderTest

ERROR = encode_error(ErrorRecord(type="smtplib.SMTPServerDisconnected", message="gone"))


async def show(
    queue: QueueUnderTest, worker: str = "A", **fields: Any
) -> WorkerInfo:  # Any: fields of WorkerInfo
    """Let the first life of a worker announce itself, with a free slot unless told otherwise."""
    told: dict[str, Any] = {
        "worker": worker,
        "incarnation": f"{worker}-1",
        "host": "box",
        "pid": ord(worker[0]),
        "version": "1",
        "queues": (queue.name,),
        "slots": 2,
        "running": 0,
        "tasks": ("tests.send",),
        **fields,
    }
    info = WorkerInfo(**told)
    await queue.backend.announce(info, HOUR_MS)
    return info


async def reasons(
    queue: QueueUnderTest,
    job_id: str = "j",
    *,
    generation: int | None = None,
    acceptance: Acceptance | None = None,
) -> Sequence[Reason]:
    """All reasons, each of which must read as a sentence of one line."""
    asked = Asked(id=job_id, generation=generation, acceptance=acceptance)
    found = await explained(queue.backend, queue.name, asked)
    for reason in found:
        assert reason.says[0].isupper(), reason
        assert (reason.says + reason.remedy).isprintable(), reason
    return found


async def kinds(queue: QueueUnderTest, job_id: str = "j", **asked: Any) -> list[Why]:  # Any: see `reasons`
    """The kinds of all reasons, in order."""
    return [reason.kind for reason in await reasons(queue, job_id, **asked)]


async def first(queue: QueueUnderTest, job_id: str = "j", **asked: Any) -> Reason:  # Any: see `reasons`
    """The first reason."""
    return (await reasons(queue, job_id, **asked))[0]


def fail_with_error(lease: Lease, delay_ms: int) -> Settlement:
    """The function raised an error that can be read, and is tried again later."""
    raised = Raised(error=ERROR, after_ms=delay_ms)
    return decide(lease, raised, settlement_id=builders.settlement_id(), retry=builders.ENDLESS)
