"""What is bounded stays bounded in the file too, not only in what a reader is shown of it."""

from __future__ import annotations

import asyncio

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.protocol.model import HISTORY_LIMIT, REFUSED_LIMIT
from leasemq.testing.conformance import builders
from tests.backends.sqlite.conftest import Open, Peek


async def one_run(backend: SqliteBackend) -> None:
    """Claim the job, write a log line, and let it fail."""
    (lease,) = (await backend.claim("mail", 1, 1_000, builders.claimant())).leases
    await backend.note("mail", [builders.log_line(lease)])
    await backend.settle("mail", [builders.retry(lease)])


@pytest.mark.promise("P-21", "P-64")
async def test_the_file_keeps_no_more_of_a_job_than_its_record_shows(
    backend: SqliteBackend, peek: Peek
) -> None:
    await backend.enqueue("mail", [builders.new_job()])
    for _ in range(HISTORY_LIMIT + 20):
        await one_run(backend)

    assert await peek("SELECT count(*) FROM leasemq_attempt") == [
        (HISTORY_LIMIT - 1,)
    ]  # and the job's own row
    assert await peek("SELECT count(*) FROM leasemq_log") == [(HISTORY_LIMIT,)]


@pytest.mark.promise("P-11", "P-64")
async def test_the_file_keeps_no_more_refused_writes_than_the_record_shows(
    backend: SqliteBackend, peek: Peek
) -> None:
    await backend.enqueue("mail", [builders.new_job()])
    (lease,) = (await backend.claim("mail", 1, 1_000, builders.claimant())).leases
    await backend.settle("mail", [builders.retry(lease)])
    renewer = backend.renewer()
    for _ in range(REFUSED_LIMIT + 5):
        await asyncio.to_thread(renewer.renew, "mail", [("j", lease.fence)], 1_000)
    renewer.close()

    assert await peek("SELECT count(*) FROM leasemq_refused") == [(REFUSED_LIMIT,)]


@pytest.mark.promise("P-62")
async def test_the_file_keeps_about_as_many_events_as_its_limit(opened: Open, peek: Peek) -> None:
    backend = await opened(event_limit=10)
    await backend.enqueue("mail", [builders.new_job()])
    for _ in range(20):
        await one_run(backend)

    assert (await peek("SELECT count(*) FROM leasemq_event"))[0][0] <= 10
