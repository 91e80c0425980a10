"""One connection hears for all listeners, comes back by itself, and then has everything looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from leasemq.backends.redis import RedisBackend, listening
from leasemq.backends.redis.keys import channel, queue_prefix
from leasemq.backends.redis.listening import RedisListener, Told, told_by
from leasemq.backends.redis.settings import located
from leasemq.errors import BackendUnavailable
from leasemq.protocol.model import Ref, Wake
from leasemq.testing.conformance import builders
from tests.servers import Proxy, RedisServer
from tests.servers.server import until

PATIENCE_MS = 5_000
TRIES = 8


@pytest.fixture
async def backend(proxy: Proxy) -> AsyncIterator[RedisBackend]:
    """The test's own server, behind the proxy, with short time-outs."""
    url = f"redis://127.0.0.1:{proxy.port}?timeout_ms=300&connect_timeout_ms=300"
    backend = RedisBackend(located(url))
    await backend.prepare()
    yield backend
    await backend.close()


@pytest.fixture
async def near(server: RedisServer) -> AsyncIterator[RedisBackend]:
    """The same server, reached without the proxy: somebody else."""
    backend = RedisBackend(located(server.url))
    await backend.prepare()
    yield backend
    await backend.close()


async def hears(listener: RedisListener, wanted: Callable[[Wake], object]) -> bool:
    """Whether it hears that before it hears nothing for a whole wait."""
    for _ in range(TRIES):
        try:
            wake = await listener.wait(PATIENCE_MS)
        except BackendUnavailable:
            continue
        if wanted(wake):
            return True
        if wake == Wake():
            return False
    return False


def subscribers(server: RedisServer) -> int:
    """How many connections hear the namespace's channel."""
    _, count = server.ask("PUBSUB", "NUMSUB", channel("leasemq"))
    return int(count)


async def is_subscribed(server: RedisServer, count: int = 1) -> None:
    """Wait until that many connections hear."""
    await asyncio.to_thread(until, lambda: subscribers(server) == count, f"{count} hear")


@pytest.mark.promise("P-83")
async def test_all_listeners_share_one_connection(backend: RedisBackend, server: RedisServer) -> None:
    async with backend.listen(["a"]) as one, backend.listen(["b"]) as other:
        await backend.enqueue("b", [builders.new_job()])

        assert await hears(other, lambda wake: wake.queues == {"b"})
        assert await one.wait(20) == Wake()
        assert subscribers(server) == 1


@pytest.mark.promise("P-83", "P-98", "B13")
async def test_after_a_lost_connection_everything_is_heard(
    backend: RedisBackend, near: RedisBackend, proxy: Proxy, server: RedisServer
) -> None:
    async with backend.listen(["q"]) as listener:
        proxy.refuse()
        await near.enqueue("q", [builders.new_job("a")])
        proxy.heal()
        assert await hears(listener, lambda wake: "q" in wake.queues)

        await is_subscribed(server)
        await listener.wait(20)
        await near.enqueue("q", [builders.new_job("b")])
        assert await hears(listener, lambda wake: "q" in wake.queues)


@pytest.mark.promise("P-61", "P-98")
async def test_an_end_that_nobody_could_be_told_of_is_heard_after_the_reconnect(
    backend: RedisBackend, near: RedisBackend, proxy: Proxy
) -> None:
    await near.enqueue("q", [builders.new_job("a")])
    (lease,) = (await near.claim("q", 1, 60_000, builders.claimant("A"))).leases
    async with backend.listen([]) as listener:
        listener.interest([lease.ref])
        listener.follow(["q"])
        assert await hears(listener, lambda wake: "q" in wake.changed)
        proxy.refuse()
        await near.settle("q", [builders.complete(lease)])
        proxy.heal()

        assert await hears(listener, lambda wake: wake.ended == {lease.ref} and "q" in wake.changed)


@pytest.mark.promise("P-61")
async def test_an_end_before_the_interest_was_registered_is_heard(
    backend: RedisBackend, near: RedisBackend
) -> None:
    answers = await near.enqueue("q", [builders.new_job(id_) for id_ in "abc"])
    gone, ended, open_ = [answer.ref for answer in answers]
    for lease in (await near.claim("q", 2, 60_000, builders.claimant("A"))).leases:
        await near.settle("q", [builders.complete(lease)])
    async with backend.listen([]) as listener:
        listener.interest([gone, ended, open_, Ref(queue="q", id="never was", generation=1)])
        heard: set[Ref] = set()
        assert await hears(listener, lambda wake: heard.update(wake.ended) or len(heard) == 3)

        assert heard == {gone, ended, Ref(queue="q", id="never was", generation=1)}


@pytest.mark.promise("P-61", "P-83")
async def test_a_silent_connection_is_given_up_and_made_anew(
    backend: RedisBackend, near: RedisBackend, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "SILENCE_MS", 200)
    async with backend.listen(["q"]) as listener:
        proxy.stall("both")
        await near.enqueue("q", [builders.new_job()])
        assert await listener.wait(50) == Wake()
        proxy.cut()  # what is stalled is lost; the stall goes on
        proxy.heal()

        assert await hears(listener, lambda wake: "q" in wake.queues)


@pytest.mark.promise("P-61")
async def test_an_interest_is_renewed_while_it_is_wanted_and_lapses_after(
    backend: RedisBackend, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "INTEREST_MS", 100)
    monkeypatch.setattr(listening, "RENEW_MS", 20)
    key = queue_prefix("leasemq", "q") + b"interest"
    (answer,) = await backend.enqueue("q", [builders.new_job()])

    def until_ms() -> float:
        return max([score for _, score in server.ask("ZRANGE", key, 0, -1, "WITHSCORES")], default=0)

    async with backend.listen([]) as listener:
        listener.interest([answer.ref])
        await asyncio.to_thread(until, lambda: until_ms() > 0, "it is registered")
        first = until_ms()
        await asyncio.to_thread(until, lambda: until_ms() > first, "it is renewed")
        listener.forget([answer.ref])

    await asyncio.to_thread(until, lambda: not server.ask("EXISTS", key), "nothing is left")


@pytest.mark.promise("P-98", "P-83")
async def test_whoever_listens_is_told_once_that_the_server_is_away_and_hears_when_it_is_back(
    backend: RedisBackend, near: RedisBackend, proxy: Proxy
) -> None:
    async with backend.listen(["q"]) as listener:
        proxy.refuse()
        with pytest.raises(BackendUnavailable, match="cannot be reached"):
            await listener.wait(PATIENCE_MS)
        assert await listener.wait(20) == Wake()
        with pytest.raises(BackendUnavailable, match="cannot be reached"):
            async with backend.listen(["q"]):
                pass
        await near.enqueue("q", [builders.new_job()])
        proxy.heal()

        assert await hears(listener, lambda wake: "q" in wake.queues)


@pytest.mark.promise("P-82")
async def test_what_others_publish_there_is_ignored(backend: RedisBackend, server: RedisServer) -> None:
    async with backend.listen(["q"]) as listener:
        for body in (
            b"",
            b"hello",
            b"\x01" * 7,
            b"\x01\xff\xff\xff\xff\xff\xff" * 3,
            b"\x01\x00\x01\x00\x00\x00\x00\xff",
        ):
            server.ask("PUBLISH", channel("leasemq"), body)
        await backend.enqueue("q", [builders.new_job()])

        assert await hears(listener, lambda wake: wake.queues == {"q"})


@pytest.mark.promise("P-83")
def test_a_push_names_its_queue_whatever_that_is_called() -> None:
    tag = b"a%7Bb%7D%25"
    body = (
        b"\x03"
        + len(tag).to_bytes(2)
        + b"\x00\x01\x00\x01"
        + tag
        + b"\x00\x05\x00\x00\x00\x02x"
        + b"\x00\x05\x00\x00\x00\x07y"
    )

    assert told_by(body) == Told(
        queue="a{b}%",
        woken=True,
        changed=True,
        cancels=frozenset({Ref(queue="a{b}%", id="x", generation=2)}),
        ended=frozenset({Ref(queue="a{b}%", id="y", generation=7)}),
    )


@pytest.mark.promise("P-83")
async def test_a_closed_backend_hears_no_more_and_leaves_no_connection(
    backend: RedisBackend, server: RedisServer
) -> None:
    async with backend.listen(["q"]):
        assert subscribers(server) == 1
    await backend.close()

    await is_subscribed(server, 0)
