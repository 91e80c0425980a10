"""What servers answer instead of doing it: each becomes an error that says whether anything happened."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from redis import exceptions as driver
from redis._parsers import BaseParser  # the driver's own reader of errors

from leasemq.backends.redis import lane
from leasemq.backends.redis.connecting import Link
from leasemq.backends.redis.faults import refused
from leasemq.backends.redis.settings import Credentials, located
from leasemq.errors import (
    BackendFull,
    BackendUnavailable,
    CorruptRecord,
    IndeterminateWrite,
    LeaseMQError,
    Unsupported,
)
from tests.backends.redis.puppet import puppet
from tests.backends.redis.small_scripts import ADD, DROP, ECHO, SUM, made
from tests.servers import RedisServer

CANARY = "t0ps3cret"
INSIDE = "script: 0a1b, on @user_script:12."
ANSWERS = {
    "LOADING Redis is loading the dataset in memory": BackendUnavailable,
    "READONLY You can't write against a read only replica.": BackendUnavailable,
    "MASTERDOWN Link with MASTER is down": BackendUnavailable,
    "CLUSTERDOWN The cluster is down": BackendUnavailable,
    "TRYAGAIN Multiple keys request during rehashing of slot": BackendUnavailable,
    "ASK 3999 127.0.0.1:6381": BackendUnavailable,
    "BUSY Redis is busy running a script.": BackendUnavailable,
    "NOREPLICAS Not enough good replicas to write.": BackendUnavailable,
    "NOSCRIPT No matching script.": BackendUnavailable,
    "NOAUTH Authentication required.": BackendUnavailable,
    "WRONGPASS invalid username-password pair or user is disabled.": BackendUnavailable,
    "NOPERM User x has no permissions to run the 'evalsha' command": BackendUnavailable,
    "ERR max number of clients reached": BackendUnavailable,
    "OOM command not allowed when used memory > 'maxmemory'.": BackendFull,
    "MISCONF Errors writing to the AOF file: No space left on device": BackendFull,
    "MISCONF Redis is configured to save RDB snapshots": BackendUnavailable,
    "WRONGTYPE Operation against a key holding the wrong kind of value": CorruptRecord,
    f"WRONGTYPE Operation against a key holding the wrong kind of value {INSIDE}": IndeterminateWrite,
    f"ERR value is out of range {INSIDE}": IndeterminateWrite,
    f"ERR Write commands are not allowed from read-only scripts. {INSIDE}": IndeterminateWrite,
    f"CORRUPT job 'a' of queue 'q' {INSIDE}": CorruptRecord,
    "ERR unknown command 'EVALSHA', with args beginning with": Unsupported,
}


@pytest.mark.promise("P-98", "E-65")
@pytest.mark.parametrize("answer", ANSWERS)
def test_each_answer_says_whether_anything_happened(answer: str) -> None:
    error = BaseParser.parse_error(answer)
    assert isinstance(error, driver.RedisError)

    told = refused(error, "claim", "there:6379", is_read=False)

    assert type(told) is ANSWERS[answer]
    assert "there:6379" in str(told) or isinstance(told, CorruptRecord)


@pytest.mark.promise("P-98")
def test_a_read_that_failed_half_way_did_not_happen() -> None:
    error = BaseParser.parse_error(f"ERR value is out of range {INSIDE}")

    assert type(refused(error, "get", "there", is_read=True)) is BackendUnavailable
    other = BaseParser.parse_error(f"WRONGTYPE Operation against a key holding the wrong kind {INSIDE}")
    assert type(refused(other, "get", "there", is_read=True)) is CorruptRecord


@pytest.mark.promise("E-59", "P-95", "B14")
async def test_an_emptied_script_cache_is_filled_again_unseen(own_link: Link, server: RedisServer) -> None:
    (only,) = await own_link.route().all()
    for number in range(5):
        assert await own_link.call(ADD, "q", 1) == number + 1
        assert only.loads == number + 1
        server.ask("SCRIPT", "FLUSH")


@pytest.mark.promise("E-59", "B14")
async def test_calls_that_find_the_cache_empty_together_load_a_script_but_once(
    own_link: Link, server: RedisServer
) -> None:
    (only,) = await own_link.route().all()

    answers = await asyncio.gather(*(own_link.call(ADD, "q", 1) for _ in range(50)))

    assert answers == list(range(1, 51))
    assert server.info("commandstats")["cmdstat_script|load"]["calls"] == only.loads == 1


@pytest.mark.promise("P-98", "B15")
async def test_a_replica_takes_no_write_and_the_primary_it_becomes_does(
    own_link: Link, server: RedisServer
) -> None:
    await own_link.call(ADD, "q", 1)
    server.ask("REPLICAOF", "127.0.0.1", 1)
    with pytest.raises(BackendUnavailable, match="is a replica"):
        await own_link.call(ADD, "q", 1)
    assert await own_link.call(SUM, "q") == 1
    server.ask("REPLICAOF", "NO", "ONE")

    assert await own_link.call(ADD, "q", 1) == 2


@pytest.mark.promise("P-98")
async def test_a_full_server_refuses_what_takes_memory_as_a_whole_and_lets_the_rest_go_on(
    own_link: Link, server: RedisServer
) -> None:
    half = made("half", "redis.call('DEL', KEYS[1] .. 'sum') return redis.call('SET', KEYS[1] .. 'x', 1)")
    await own_link.call(ADD, "q", 1)
    server.ask("CONFIG", "SET", "maxmemory", 1)
    with pytest.raises(BackendFull, match="maxmemory"):
        await own_link.call(half, "q")

    assert await own_link.call(SUM, "q") == 1
    assert await own_link.call(DROP, "q") == 1


@pytest.mark.promise("P-98", "B15")
async def test_a_server_that_reads_its_data_in_is_not_there_yet() -> None:
    said = [b"-LOADING Redis is loading the dataset in memory\r\n"] * 2

    async with puppet(lambda command: said.pop() if said else b"+PONG\r\n") as port:
        link = Link(located(f"redis://127.0.0.1:{port}"))
        for _ in range(2):
            with pytest.raises(BackendUnavailable, match="LOADING"):
                await link.call(ECHO, "q", 1)
        assert await link.call(ECHO, "q", 1) == b"PONG"
        await link.close()


@pytest.mark.promise("P-98")
@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"*-7\r\n", None])
async def test_what_is_no_redis_server_is_told_so_in_time(said: bytes | None) -> None:
    async with puppet(lambda _: said) as port:
        link = Link(located(f"redis://127.0.0.1:{port}?connect_timeout_ms=200"))
        with pytest.raises(BackendUnavailable, match="cannot be reached"):
            await link.call(ECHO, "q", 1)
        await link.close()


@pytest.mark.promise("P-82", "P-98")
async def test_an_answer_that_nobody_asked_for_ends_the_connection() -> None:
    def twice(command: object) -> bytes:
        return b"+PONG\r\n" if command == [b"PING"] else b":1\r\n:2\r\n"

    async with puppet(twice) as port:
        link = Link(located(f"redis://127.0.0.1:{port}"))
        assert [await link.call(ADD, "q", 1) for _ in range(3)] == [1, 1, 1]
        await link.close()


@pytest.mark.promise("P-98", "P-82")
async def test_a_connection_that_was_long_idle_is_tried_out_before_a_write_is_risked_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lane, "_PROBE_SECONDS", 0.05)
    said = [b"+PONG\r\n", b":1\r\n", b"", b"+PONG\r\n", b":2\r\n"]
    heard: list[bytes] = []

    def answer(command: Sequence[bytes]) -> bytes:
        heard.append(command[0])
        return said[len(heard) - 1]

    async with puppet(answer) as port:
        link = Link(located(f"redis://127.0.0.1:{port}"))
        assert await link.call(ADD, "q", 1) == 1
        monkeypatch.setattr(lane, "_IDLE_MS", -1)
        first = asyncio.ensure_future(link.call(ADD, "q", 1))
        while len(heard) < 3:  # noqa: ASYNC110  bounded: the puppet hears it in the loop's next turns
            await asyncio.sleep(0)
        monkeypatch.undo()

        assert await first == 2
        assert heard == [b"PING", b"EVALSHA", b"PING", b"PING", b"EVALSHA"]
        await link.close()


@pytest.mark.promise("P-102", "E-69")
@pytest.mark.parametrize("password", [CANARY, None])
async def test_a_refused_password_is_not_shown(server: RedisServer, password: str | None) -> None:
    server.ask("ACL", "SETUSER", "app", "on", ">right", "~*", "&*", "+@all")
    server.ask("CONFIG", "SET", "requirepass", "other")
    who = Credentials(username="app" if password else None, password=password)
    link = Link(replace(located(server.url), credentials=who))

    with pytest.raises(LeaseMQError, match="password") as caught:
        await link.call(ECHO, "q", 1)
    assert CANARY not in f"{caught.value!r} {caught.value.__cause__!r}"
    await link.close()
