"""Rows whose values are not what we stored: told by name, ended on the way, and in nobody's way."""

from __future__ import annotations

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.errors import CorruptRecord
from leasemq.protocol.insight import CancelAnswer, Change, EventKind, Filter
from leasemq.protocol.model import OnParentFailure, Ref, Settled, State
from leasemq.testing.conformance import builders
from leasemq.testing.manual_clock import ManualClock
from tests.backends.sqlite.conftest import Peek

BODIES = (
    "UPDATE leasemq_body SET payload = CAST('text' AS TEXT) WHERE job = 2",
    "UPDATE leasemq_body SET payload = 17 WHERE job = 2",
    "UPDATE leasemq_body SET task = x'00ff' WHERE job = 2",
    "UPDATE leasemq_body SET task = CAST(x'ff' AS TEXT) WHERE job = 2",
    "UPDATE leasemq_body SET headers = 'text' WHERE job = 2",
    "UPDATE leasemq_body SET max_stalls = 'many' WHERE job = 2",
    "UPDATE leasemq_body SET keep_dead_ms = 'for ever' WHERE job = 2",
    "DELETE FROM leasemq_body WHERE job = 2",
)
HOT_ROWS = (
    "UPDATE leasemq_job SET attempts = -1 WHERE key = 2",
    "UPDATE leasemq_job SET failures = 'none' WHERE key = 2",
    "UPDATE leasemq_job SET stalls = 1.5 WHERE key = 2",
    "UPDATE leasemq_job SET fence = 'first' WHERE key = 2",
    "UPDATE leasemq_job SET created_ms = 'today' WHERE key = 2",
    "UPDATE leasemq_job SET generation = x'01' WHERE key = 2",
    "INSERT INTO leasemq_value VALUES (2, 'checkpoint', 'text')",
)
NEVER_HANDED_OUT = (
    "UPDATE leasemq_job SET state = 'sideways' WHERE key = 2",
    "UPDATE leasemq_job SET due_ms = 'soon', state = 'scheduled' WHERE key = 2",
)


@pytest.fixture(params=(*BODIES, *HOT_ROWS))
async def planted(request: pytest.FixtureRequest, backend: SqliteBackend, peek: Peek) -> SqliteBackend:
    """Three waiting jobs, of which the second cannot be read."""
    await backend.enqueue("mail", [builders.new_job(name) for name in ("good", "bad", "fine")])
    await peek("UPDATE leasemq_job SET replays = 1 WHERE key = 2")  # so that its checkpoint is looked at
    await peek(request.param)
    return backend


@pytest.mark.promise("P-99")
async def test_a_job_that_cannot_be_read_is_told_by_name(planted: SqliteBackend) -> None:
    with pytest.raises(CorruptRecord, match="job 'bad' in queue 'mail'"):
        await planted.get("mail", ["good", "bad"])

    assert (await planted.get("mail", ["good"]))[0] is not None
    page = await planted.find("mail", Filter(), None, 10)
    assert [job.ref.id for job in page.jobs] == ["fine", "good"]


@pytest.mark.promise("P-99")
async def test_a_claim_goes_past_a_job_that_cannot_be_read_and_ends_it(planted: SqliteBackend) -> None:
    claimed = await planted.claim("mail", 3, 1_000, builders.claimant())

    assert [lease.ref.id for lease in claimed.leases] == ["good", "fine"]
    counts = await planted.counts("mail")
    assert (counts.active, counts.failed, counts.waiting, counts.stored) == (2, 1, 0, 3)
    events = (await planted.events("mail", "", 100)).events
    assert [(event.ref.id, event.kind) for event in events if event.state is State.FAILED] == [
        ("bad", EventKind.FAILED)
    ]


@pytest.mark.promise("P-99")
async def test_why_a_job_was_ended_is_stored(planted: SqliteBackend, peek: Peek) -> None:
    await planted.claim("mail", 3, 1_000, builders.claimant())

    assert await peek("SELECT state, reason FROM leasemq_job WHERE key = 2") == [("failed", "corrupt")]


@pytest.mark.promise("P-99")
async def test_a_job_that_cannot_be_read_can_be_removed(planted: SqliteBackend, peek: Peek) -> None:
    await planted.claim("mail", 3, 1_000, builders.claimant())

    (changed,) = await planted.remove("mail", ["bad"], force=True)

    assert changed.change is Change.DONE
    assert await peek("SELECT count(*) FROM leasemq_body WHERE job = 2") == [(0,)]
    assert (await planted.get("mail", ["bad"])) == (None,)


@pytest.mark.promise("P-99")
@pytest.mark.parametrize("corruption", NEVER_HANDED_OUT)
async def test_a_job_in_no_known_place_stops_nothing(
    backend: SqliteBackend, peek: Peek, corruption: str
) -> None:
    await backend.enqueue("mail", [builders.new_job(name) for name in ("good", "bad", "fine")])
    await peek(corruption)

    claimed = await backend.claim("mail", 3, 1_000, builders.claimant())
    await backend.advance("mail", 10)
    await backend.prune("mail", 10)

    assert [lease.ref.id for lease in claimed.leases] == ["good", "fine"]
    assert await backend.settle("mail", [builders.complete(lease) for lease in claimed.leases]) == (
        Settled.APPLIED,
        Settled.APPLIED,
    )
    with pytest.raises(CorruptRecord, match="'bad'"):
        await backend.get("mail", ["bad"])
    (changed,) = await backend.remove("mail", ["bad"], force=True)
    assert changed.change is Change.DONE


@pytest.mark.promise("P-34", "P-99")
async def test_a_running_job_that_became_unreadable_is_ended_when_its_lease_is_over(
    backend: SqliteBackend, peek: Peek, clock: ManualClock
) -> None:
    await backend.enqueue("mail", [builders.new_job("bad"), builders.new_job("good")])
    await backend.claim("mail", 2, 1_000, builders.claimant())
    await peek("UPDATE leasemq_body SET payload = 'text' WHERE job = 1")
    clock.advance(1_001)

    leases = await backend.expired("mail", 10)
    await backend.advance("mail", 10)

    assert [lease.ref.id for lease in leases] == ["good"]
    counts = await backend.counts("mail")
    assert (counts.active, counts.failed) == (1, 1)


@pytest.mark.promise("P-99")
async def test_an_unreadable_follow_up_does_not_hold_back_the_others(
    backend: SqliteBackend, peek: Peek
) -> None:
    await backend.enqueue("mail", [builders.with_parent("a", "p"), builders.with_parent("b", "p")])
    await peek("UPDATE leasemq_outbox SET kind = 'sideways' WHERE id = 1")

    entries = await backend.outbox("mail", 10)

    assert [entry.child.id for entry in entries] == ["b"]


@pytest.mark.promise("P-99")
async def test_unreadable_events_are_told_and_not_read_as_none(backend: SqliteBackend, peek: Peek) -> None:
    await backend.enqueue("mail", [builders.new_job("a")])
    await peek("UPDATE leasemq_event SET entries = x'c1'")

    with pytest.raises(CorruptRecord, match="events of queue 'mail'"):
        await backend.events("mail", "", 10)


@pytest.mark.promise("P-99")
async def test_unreadable_books_are_told_and_not_read_as_zero(backend: SqliteBackend, peek: Peek) -> None:
    await backend.enqueue("mail", [builders.new_job("a")])
    await peek("UPDATE leasemq_queue SET waiting = 'some'")

    with pytest.raises(CorruptRecord, match="books of queue 'mail'"):
        await backend.counts("mail")
    assert await backend.cancel("other", ["a"]) == (CancelAnswer.NOT_FOUND,)


@pytest.mark.promise("P-99", "P-32")
@pytest.mark.parametrize("limit", [1, 2])
async def test_one_claim_goes_past_as_many_unreadable_jobs_as_there_are(
    backend: SqliteBackend, peek: Peek, limit: int
) -> None:
    await backend.enqueue("mail", [builders.new_job(f"bad{number}", priority=1) for number in range(150)])
    await backend.enqueue("mail", [builders.new_job("good"), builders.new_job("fine")])
    await peek("DELETE FROM leasemq_body WHERE job <= 150")

    claimed = await backend.claim("mail", limit, 1_000, builders.claimant())

    assert [lease.ref.id for lease in claimed.leases] == ["good", "fine"][:limit]
    assert claimed.reason is None


@pytest.mark.promise("P-99", "P-62")
@pytest.mark.parametrize("job_id", ["x'ff00'", "CAST(x'ff00' AS TEXT)"])
async def test_a_job_whose_id_is_no_text_is_ended_by_the_claim_that_meets_it(
    backend: SqliteBackend, peek: Peek, job_id: str
) -> None:
    await backend.enqueue("mail", [builders.new_job("bad"), builders.new_job("good")])
    await peek(f"UPDATE leasemq_job SET id = {job_id} WHERE key = 1")  # noqa: S608 - our own words

    claimed = await backend.claim("mail", 2, 1_000, builders.claimant())

    assert [lease.ref.id for lease in claimed.leases] == ["good"]
    assert await peek("SELECT state, reason FROM leasemq_job WHERE key = 1") == [("failed", "corrupt")]
    events = (await backend.events("mail", "", 100)).events
    assert [event.ref.id for event in events if event.state is State.FAILED] == ["b'\\xff\\x00'"]


@pytest.mark.promise("P-99", "P-34", "P-02")
@pytest.mark.parametrize("deadline", ["NULL", "'soon'", "x'ff'"])
async def test_a_running_job_without_a_readable_deadline_counts_as_past_it(
    backend: SqliteBackend, peek: Peek, deadline: str
) -> None:
    await backend.enqueue("mail", [builders.new_job("bad"), builders.new_job("good")])
    await backend.claim("mail", 1, 1_000, builders.claimant())
    await peek(f"UPDATE leasemq_job SET lease_until_ms = {deadline} WHERE key = 1")  # noqa: S608 - our own words

    claimed = await backend.claim("mail", 5, 1_000, builders.claimant())
    (lease,) = await backend.expired("mail", 10)

    assert [lease.ref.id for lease in claimed.leases] == ["good"]
    assert claimed.next_lapse_in_ms == 1_000
    assert lease.ref.id == "bad"
    assert await backend.settle("mail", [builders.stall(lease)]) == (Settled.APPLIED,)
    assert (await backend.counts("mail")).waiting == 1


@pytest.mark.promise("P-99", "P-110")
@pytest.mark.parametrize(
    "damage", ["on_failure = 'sideways'", "id = x'ff'", "queue = x'ff'", "generation = 'first'"]
)
async def test_an_unreadable_dependant_is_passed_over_when_its_parent_ends(
    backend: SqliteBackend, peek: Peek, damage: str
) -> None:
    await backend.enqueue("mail", [builders.new_job("parent")])
    for name in ("bad", "good"):
        child = Ref(queue="mail", id=name, generation=1)
        await backend.attach("mail", "parent", child, OnParentFailure.FAIL)
    await peek(f"UPDATE leasemq_dependant SET {damage} WHERE number = 1")  # noqa: S608 - our own words
    (lease,) = (await backend.claim("mail", 1, 1_000, builders.claimant())).leases

    assert await backend.settle("mail", [builders.complete(lease)]) == (Settled.APPLIED,)
    assert [entry.child.id for entry in await backend.outbox("mail", 10)] == ["good"]


@pytest.mark.promise("P-99", "P-82")
async def test_a_running_job_whose_counter_is_damaged_can_be_settled_along_with_others(
    backend: SqliteBackend, peek: Peek
) -> None:
    await backend.enqueue("mail", [builders.new_job("bad"), builders.new_job("good")])
    leases = (await backend.claim("mail", 2, 1_000, builders.claimant())).leases
    await peek("UPDATE leasemq_job SET attempts = 'x' WHERE key = 1")

    answers = await backend.settle("mail", [builders.complete(lease) for lease in leases])

    assert answers == (Settled.APPLIED, Settled.APPLIED)
    assert len((await backend.events("mail", "", 100)).events) == 6


@pytest.mark.promise("P-99")
async def test_what_a_damaged_row_leads_to_is_told_as_a_corrupt_record_of_its_queue(
    backend: SqliteBackend, peek: Peek
) -> None:
    await backend.enqueue("mail", [builders.new_job("bad", ttl_ms=1_000)])
    await backend.cancel("mail", ["bad"])
    await peek("UPDATE leasemq_body SET ttl_ms = 'x'")

    with pytest.raises(CorruptRecord, match="'mail'"):
        await backend.replay("mail", ["bad"], 1)
    with pytest.raises(UnicodeEncodeError):
        await backend.cancel("mail", ["a caller's own \ud800"])
