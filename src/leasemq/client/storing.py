"""Storing one batch: repeated while that is safe and in time, and answered job by job."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import replace

from leasemq.backend import Backend
from leasemq.clock import boot_ms
from leasemq.errors import BackendUnavailable, IndeterminateWrite, LeaseMQError, Refused
from leasemq.protocol.model import Acceptance, Enqueued, NewJob
from leasemq.protocol.record import record

PATIENCE_MS = 2_000  # how long an enqueue is repeated before its caller hears of the trouble
_FIRST_PAUSE_MS = 20
_LONGEST_PAUSE_MS = 500

Answer = Enqueued | LeaseMQError


@record(frozen=True, slots=True, kw_only=True)
class Offer:
    """A job to store, and what its caller knows about it."""

    job: NewJob
    own_id: bool  # made for this very call, so that nobody else can have stored it

    @property
    def is_repeatable(self) -> bool:
        """Whether a repeat is recognised: not once the record may be gone with the job's end (P-03)."""
        keep = self.job.keep
        return keep.record_ms > 0 and keep.dead_ms > 0


async def store(
    backend: Backend, queue: str, offers: Sequence[Offer], *, patience_ms: int = PATIENCE_MS
) -> list[Answer]:
    """Answer each offer with what became of it, in order; an error stands for exactly one job.

    `BackendUnavailable` says that the job was not stored, `IndeterminateWrite` that it may have been.
    All offers are repeatable, or none is.
    """
    jobs = [offer.job for offer in offers]
    may_repeat = all(offer.is_repeatable for offer in offers)
    began_ms = boot_ms()
    pause_ms = _FIRST_PAUSE_MS
    doubtful = False
    fault: LeaseMQError
    while True:
        try:
            return _answers(offers, await backend.enqueue(queue, jobs), doubtful=doubtful)
        except Refused as refusal:
            return await _each_alone(backend, queue, offers, refusal, patience_ms)
        except BackendUnavailable as error:
            fault = error
        except IndeterminateWrite as error:
            fault = error
            doubtful = True
        wait_ms = random.uniform(pause_ms / 2, pause_ms)  # noqa: S311  spreads callers, guards nothing
        if (doubtful and not may_repeat) or boot_ms() - began_ms + wait_ms > patience_ms:
            return [_told(fault, queue, offer.job, doubtful=doubtful) for offer in offers]
        await asyncio.sleep(wait_ms / 1_000)
        pause_ms = min(pause_ms * 2, _LONGEST_PAUSE_MS)


def _answers(offers: Sequence[Offer], stored: Sequence[Enqueued], *, doubtful: bool) -> list[Answer]:
    if not doubtful:
        return list(stored)
    return [_recognised(offer, enqueued) for offer, enqueued in zip(offers, stored, strict=True)]


def _recognised(offer: Offer, enqueued: Enqueued) -> Enqueued:
    """Answer a repeat's `existing` as `created` where only the lost first try can have stored the job."""
    is_ours = offer.own_id and enqueued.ref.id == offer.job.id
    if is_ours and enqueued.acceptance is Acceptance.EXISTING:
        return replace(enqueued, acceptance=Acceptance.CREATED)
    return enqueued


async def _each_alone(
    backend: Backend, queue: str, offers: Sequence[Offer], refusal: Refused, patience_ms: int
) -> list[Answer]:
    """Split a refused batch until the bad job stands alone."""
    if len(offers) == 1:
        return [refusal]
    middle = len(offers) // 2
    first = await store(backend, queue, offers[:middle], patience_ms=patience_ms)
    return first + await store(backend, queue, offers[middle:], patience_ms=patience_ms)


def _told(fault: LeaseMQError, queue: str, job: NewJob, *, doubtful: bool) -> LeaseMQError:
    """Answer the error of one caller: what is known of its own job."""
    told: LeaseMQError
    if doubtful:
        remedy = (
            "look at its state before you repeat: with reuse= another enqueue may run it again"
            if job.reuse
            else f"repeat the enqueue with id={job.id!r}, which leaves one job"
        )
        told = IndeterminateWrite(
            f"job {job.id} in queue {queue} may or may not be stored: {fault}; {remedy}",
            job_id=job.id,
        )
    else:
        told = type(fault)(f"job {job.id} in queue {queue} was not stored: {fault}")
    told.__cause__ = fault
    return told
