"""Operations of several calls: when a later one cannot be made, it is not told that nothing happened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from leasemq.backends.redis import RedisBackend
from leasemq.backends.redis.connecting import Link, Script
from leasemq.backends.redis.control import PART
from leasemq.backends.redis.settings import Settings, located
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from leasemq.testing.conformance import builders
from tests.servers import shared

IDS = [f"j{number}" for number in range(PART + 1)]
OPERATIONS: dict[str, Callable[[RedisBackend], Awaitable[object]]] = {
    "cancel": lambda backend: backend.cancel("q", IDS),
    "remove": lambda backend: backend.remove("q", IDS, force=True),
    "drain": lambda backend: backend.drain("q", len(IDS)),
    "obliterate": lambda backend: backend.obliterate("q", force=True),
}


@pytest.fixture
async def backend(namespace: str) -> AsyncIterator[RedisBackend]:
    """A backend with more jobs than one call is about."""
    settings: Settings = located(f"{shared('redis')}?namespace={namespace}")
    backend = RedisBackend(settings)
    await backend.prepare()
    await backend.enqueue("q", [builders.new_job(id_) for id_ in IDS])
    yield backend
    await backend.close()


@pytest.fixture
def cut_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let so many calls through, and none after them; -1: let all through."""
    ask, left = Link._call, [-1]

    async def cut(link: Link, script: Script, prefix: bytes, args: tuple[Any, ...]) -> Any:  # Any: a reply
        if left[0] == 0:
            raise BackendUnavailable("cut")
        left[0] -= 1
        return await ask(link, script, prefix, args)

    monkeypatch.setattr(Link, "_call", cut)

    def cut_after(calls: int) -> None:
        left[0] = calls

    return cut_after


@pytest.mark.promise("P-98", "P-04")
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_what_is_done_in_part_is_in_doubt_and_what_is_not_begun_is_not(
    backend: RedisBackend, cut_after: Callable[[int], None], operation: str
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
