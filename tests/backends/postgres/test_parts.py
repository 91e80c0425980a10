"""Operations of several calls: when a later one cannot be made, it is not told that nothing happened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from leasemq.backends.postgres import PostgresBackend
from leasemq.backends.postgres.settings import Settings
from leasemq.backends.postgres.store import Store
from leasemq.backends.postgres.wire import Row
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.protocol.checks import MAX_BATCH
from leasemq.testing.conformance import builders

IDS = [f"j{number}" for number in range(MAX_BATCH + 1)]
OPERATIONS: dict[str, Callable[[PostgresBackend], Awaitable[object]]] = {
    "cancel": lambda backend: backend.cancel("q", IDS),
    "remove": lambda backend: backend.remove("q", IDS, force=True),
    "drain": lambda backend: backend.drain("q", len(IDS)),
    "obliterate": lambda backend: backend.obliterate("q", force=True),
}


@pytest_asyncio.fixture
async def backend(settings: Settings) -> AsyncIterator[PostgresBackend]:
    """A backend with more jobs than one call is about."""
    made = PostgresBackend(settings)
    await made.prepare()
    for ids in (IDS[:MAX_BATCH], IDS[MAX_BATCH:]):
        await made.enqueue("q", [builders.new_job(id_) for id_ in ids])
    yield made
    await made.close()


@pytest.fixture
def cut_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let so many calls through, and none after them; -1: let all through."""
    call, left = Store.call, [-1]

    async def cut(store: Store, name: str, *values: object) -> list[Row]:
        if left[0] == 0:
            raise BackendUnavailable("cut")
        left[0] -= 1
        return await call(store, name, *values)

    monkeypatch.setattr(Store, "call", cut)

    def cut_after(calls: int) -> None:
        left[0] = calls

    return cut_after


@pytest.mark.promise("P-98", "P-04")
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_what_is_done_in_part_is_in_doubt_and_what_is_not_begun_is_not(
    backend: PostgresBackend, cut_after: Callable[[int], None], operation: str
) -> None:
    cut_after(0)
    with pytest.raises(BackendUnavailable):
        await OPERATIONS[operation](backend)
    cut_after(1)
    with pytest.raises(IndeterminateWrite, match="only a part of it"):
        await OPERATIONS[operation](backend)
    cut_after(-1)
    await OPERATIONS[operation](backend)

    assert (await backend.counts("q")).waiting == 0
