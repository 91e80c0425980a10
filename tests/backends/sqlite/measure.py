"""Measures the SQLite backend on this machine: `python tests/backends/sqlite/measure.py [folder]`.

Prints jobs per second for enqueue, and for claim + settle, by batch size and by `sync`.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import sys
import tempfile
from pathlib import Path

from leasemq.backends.sqlite import SqliteBackend
from leasemq.backends.sqlite.settings import Sync
from leasemq.client.ids import new_job_id
from leasemq.clock import boot_ms
from leasemq.protocol.model import Claimant, Lease, NewJob, Outcome, Settled, Settlement, State

QUEUE = "measured"
DICE = random.Random(1)  # drawing from the system would be a tenth of what is measured
LEASE_MS = 30_000
SIZES: tuple[tuple[Sync, int, int], ...] = (
    ("normal", 100, 40_000),
    ("full", 100, 40_000),
    ("normal", 1, 5_000),
    ("full", 1, 2_000),
)


def new_jobs(count: int) -> list[NewJob]:
    """No-op jobs with ids and payloads of the usual size."""
    return [NewJob(id=new_job_id(), task="tests.noop", payload=b'{"args":[1,2]}') for _ in range(count)]


def completed(lease: Lease) -> Settlement:
    """The settlement of a handler that returned nothing."""
    return Settlement(
        id=DICE.getrandbits(63),
        job_id=lease.ref.id,
        generation=lease.ref.generation,
        fence=lease.fence,
        outcome=Outcome.COMPLETED,
        state=State.COMPLETED,
        failures=lease.failures,
        stalls=lease.stalls,
        result=b"null",
        keep_ms=lease.keep.record_ms,
        result_ms=lease.keep.result_ms,
    )


async def drain(backend: SqliteBackend, batch: int) -> int:
    """Claim and settle until nothing is left; answers how many."""
    done = 0
    while True:
        claimant = Claimant(worker="w", incarnation="i", request_id=secrets.token_hex(16))
        leases = (await backend.claim(QUEUE, batch, LEASE_MS, claimant)).leases
        if not leases:
            return done
        answers = await backend.settle(QUEUE, [completed(lease) for lease in leases])
        done += sum(answer is Settled.APPLIED for answer in answers)


async def exchange_all(backend: SqliteBackend, batch: int) -> int:
    """As `drain`, but each settlement brings the next claim, as a busy worker has it; answers how many."""
    done, settlements = 0, list[Settlement]()
    while True:
        claimant = Claimant(worker="w", incarnation="i", request_id=secrets.token_hex(16))
        settled, claimed = await backend.exchange(QUEUE, settlements, batch, LEASE_MS, claimant)
        done += sum(answer is Settled.APPLIED for answer in settled)
        settlements = [completed(lease) for lease in claimed.leases]
        if not settlements:
            return done


async def measured(folder: Path, sync: Sync, batch: int, count: int) -> list[int]:
    """Jobs per second: enqueued by 500; then claimed and settled, and exchanged, by `batch`."""
    backend = SqliteBackend(folder / f"{sync}-{batch}.db", sync=sync)
    await backend.prepare()
    rates = []
    for work in (drain, exchange_all):
        jobs = new_jobs(count)
        started_ms = boot_ms()
        for start in range(0, count, 500):
            await backend.enqueue(QUEUE, jobs[start : start + 500])
        stored_ms = boot_ms()
        assert await work(backend, batch) == count
        rates += [stored_ms - started_ms, boot_ms() - stored_ms]
    await backend.close()
    return [count * 1_000 // max(1, took_ms) for took_ms in rates]


def main(folder: Path) -> None:
    """Print one line per size."""
    for sync, batch, count in SIZES:
        enqueued, settled, _, exchanged = asyncio.run(measured(folder, sync, batch, count))
        print(
            f"sync={sync:6} batch={batch:4}: enqueue {enqueued:7,}/s  claim+settle {settled:7,}/s"
            f"  exchange {exchanged:7,}/s",
            flush=True,
        )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as temporary:
        main(Path(temporary))
