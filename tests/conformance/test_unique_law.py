"""The law of unique keys, watched while random scripts play: one holder each, and only a holder answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from leasemq.backends.memory import MemoryBackend
from leasemq.protocol.insight import Filter, JobRecord
from leasemq.protocol.model import NOT_STARTED, Acceptance, Enqueued, NewJob, UniqueMode, UniqueUntil
from leasemq.testing.explorer import run_now
from leasemq.testing.manual_clock import ManualClock
from leasemq.testing.player import Player
from leasemq.testing.scripts import script

SCRIPTS = 100
BY_KEY = (Acceptance.SKIPPED, Acceptance.REPLACED, Acceptance.DEBOUNCED)


@pytest.fixture(autouse=True)
def backend_name() -> str:
    """Memory, which SQLite answers like: see the twins."""
    return "memory"


def holds_its_key(record: JobRecord) -> bool:
    """Whether the job's state alone says that it holds its key, whatever the window."""
    if record.unique is None or record.unique.mode is UniqueMode.THROTTLE:
        return False
    if record.unique.until is UniqueUntil.START:
        return record.state in NOT_STARTED and record.attempts == 0
    return not record.state.is_terminal


def is_bounded(record: JobRecord) -> bool:
    """Whether a window may have freed the key already."""
    unique = record.unique
    return unique is not None and unique.window_ms is not None and unique.mode is not UniqueMode.DEBOUNCE


def broken(records: Sequence[JobRecord]) -> list[str]:
    """The keys that more than one job holds."""
    keys = Counter(r.unique.key for r in records if r.unique and holds_its_key(r) and not is_bounded(r))
    return [key for key, holders in keys.items() if holders > 1]


def answered_by_no_holder(
    jobs: Sequence[NewJob], answers: Sequence[Enqueued], records: dict[str, JobRecord]
) -> Iterator[Enqueued]:
    """The answers that a key is said to be held by a job which does not hold it."""
    for job, answer in zip(jobs, answers, strict=True):
        holder = records.get(answer.ref.id)
        if answer.acceptance not in BY_KEY or holder is None or holder.unique is None or job.unique is None:
            continue
        if (
            holder.unique.key != job.unique.key
        ):  # a throttled key that has outlived its holder, whose id is reused
            is_right = answer.acceptance is Acceptance.SKIPPED
        else:
            is_right = holder.unique.mode is UniqueMode.THROTTLE or holds_its_key(holder)
        if not is_right:
            yield answer


async def _watch(seed: int) -> Counter[str]:
    clock = ManualClock()
    backend = MemoryBackend(clock=clock)
    player = Player(backend, clock)
    seen: Counter[str] = Counter()
    for call in script(seed):
        answer: Any = await player.play(call)
        for queue in await backend.queues():
            page = await backend.find(queue, Filter(), None, 1_000)
            assert broken(page.jobs) == [], (seed, call)
            arguments: dict[str, Any] = dict(call.arguments)
            if call.name == "enqueue" and arguments["queue"] == queue and not isinstance(answer, str):
                records = {record.ref.id: record for record in page.jobs}
                assert list(answered_by_no_holder(arguments["jobs"], answer, records)) == [], (seed, call)
                seen.update(one.acceptance for one in answer)
    await backend.close()
    return seen


@pytest.mark.promise("P-41")
def test_a_key_has_one_holder_and_only_the_holder_answers_for_it() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SCRIPTS):
        seen += run_now(_watch(seed))
    assert {*BY_KEY, Acceptance.CREATED, Acceptance.EXISTING} <= seen.keys()
