"""How many pages of the file an operation reads does not depend on how many jobs are stored.

Each measurement begins with an empty cache, so every page that is looked at counts, the inner levels of
each tree included: a working process has those in its cache, and reads fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from leasemq.protocol.model import State
from tests.backends.sqlite.pages import COUNTERS, measured

FEW, MANY, VERY_MANY = 1_000, 20_000, 100_000
BATCH = 100
KINDS = (State.COMPLETED, State.SCHEDULED, State.WAITING)
LEVELS = 8  # trees that one operation descends; a hundred times the rows make each a level deeper at most

needs_counters = pytest.mark.skipif(not COUNTERS.exists(), reason="the kernel does not count what is read")


async def compare(folder: Path, kind: State, stored: int, batches: Sequence[int]) -> None:
    """See that what is read per operation hardly grows from the few to the many."""
    for batch in batches:
        few = await measured(folder / f"few-{batch}.db", FEW, kind, batch=batch)
        many = await measured(folder / f"many-{batch}.db", stored, kind, batch=batch)
        for name in ("enqueue", "claim", "settle"):
            before, after = few.mean(name), many.mean(name)
            print(
                f"pages: {name} of {batch}: {before:.1f} among {FEW:,} {kind} jobs, {after:.1f} among "
                f"{stored:,}: {after / before:.2f} times"
            )
            assert before > 5, "the kernel counts nothing"
            assert after <= before + LEVELS, name
            if (name, batch) == ("claim", BATCH):
                assert after <= 1.2 * before, name


@needs_counters
@pytest.mark.promise("A-37")
@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_claim_reads_does_not_grow_with_what_is_stored(tmp_path: Path, kind: State) -> None:
    await compare(tmp_path, kind, MANY, [BATCH])


@needs_counters
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.promise("A-37")
@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_claim_reads_does_not_grow_up_to_a_hundred_thousand_jobs(
    tmp_path: Path, kind: State
) -> None:
    await compare(tmp_path, kind, VERY_MANY, [BATCH, 1])
