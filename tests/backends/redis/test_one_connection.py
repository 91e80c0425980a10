"""One connection for all calls: each caller gets its own answer, and none another's."""

from __future__ import annotations

import asyncio
import os
import random

import pytest

from leasemq.backends.redis.connecting import Link
from leasemq.backends.redis.settings import located
from leasemq.errors import BackendUnavailable, IndeterminateWrite
from tests.backends.redis.small_scripts import ADD, ECHO, SUM, made
from tests.servers import Proxy, RedisServer
from tests.servers.server import until

CALLS = 300


def clients(server: RedisServer) -> set[str]:
    """The ids of the connections that are open, but for the one that asks."""
    told = server.ask("CLIENT", "LIST", "TYPE", "normal")
    listed = told if isinstance(told, list) else told.decode().splitlines()
    fields = [one if isinstance(one, dict) else dict(f.split("=", 1) for f in one.split()) for one in listed]
    return {one["id"] for one in fields if one["cmd"] != "client|list"}


@pytest.mark.promise("P-82", "E-65")
async def test_concurrent_calls_share_one_connection_and_each_gets_its_own_answer(
    own_link: Link, server: RedisServer
) -> None:
    answers = await asyncio.gather(*(own_link.call(ECHO, "q", number) for number in range(CALLS)))

    assert answers == [str(number).encode() for number in range(CALLS)]
    assert len(clients(server)) == 1


@pytest.mark.promise("P-98")
async def test_a_cancelled_caller_takes_nobody_elses_answer_and_its_call_is_carried_out(link: Link) -> None:
    dice = random.Random(5)
    await link.call(ADD, "q", 0)
    cancelled = 0
    for number in range(CALLS):
        call = asyncio.ensure_future(link.call(ADD, "q", 1))
        for _ in range(dice.randrange(4)):
            await asyncio.sleep(0)
        cancelled += call.cancel()
        assert await link.call(ECHO, "q", number) == str(number).encode()

    assert cancelled > CALLS // 2
    assert await link.call(SUM, "q") in range(CALLS - cancelled, CALLS + 1)


@pytest.mark.promise("P-98")
async def test_a_call_that_was_written_is_carried_out_though_its_caller_is_gone(link: Link) -> None:
    for _ in range(CALLS):
        call = asyncio.ensure_future(link.call(ADD, "q", 1))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        call.cancel()

    await link.call(ADD, "q", 0)
    assert await link.call(SUM, "q") == CALLS


@pytest.mark.promise("P-98", "B06")
async def test_a_write_whose_answer_is_lost_is_in_doubt_and_was_done_once(
    far_link: Link, proxy: Proxy
) -> None:
    await far_link.call(ADD, "q", 1)
    proxy.drop_reply()

    with pytest.raises(IndeterminateWrite, match="add"):
        await far_link.call(ADD, "q", 1)
    assert await far_link.call(SUM, "q") == 2


@pytest.mark.promise("P-98")
async def test_a_read_whose_answer_is_lost_did_not_happen(far_link: Link, proxy: Proxy) -> None:
    await far_link.call(SUM, "q")
    proxy.drop_reply()

    with pytest.raises(BackendUnavailable):
        await far_link.call(SUM, "q")


@pytest.mark.promise("P-98", "B13")
async def test_a_connection_on_which_nothing_comes_any_more_is_given_up(far_link: Link, proxy: Proxy) -> None:
    await far_link.call(ADD, "q", 1)
    proxy.stall("both")

    with pytest.raises(IndeterminateWrite, match="no answer within 300 ms"):
        await far_link.call(ADD, "q", 1)
    proxy.heal()

    assert await far_link.call(ECHO, "q", "mine") == b"mine"


@pytest.mark.promise("P-98", "P-82")
async def test_what_a_frozen_server_answers_late_is_nobodys_answer(
    own_link: Link, server: RedisServer
) -> None:
    await own_link.call(ADD, "q", 1)
    server.freeze()
    try:
        with pytest.raises(IndeterminateWrite):
            await own_link.call(ADD, "q", 1)
        with pytest.raises(BackendUnavailable):
            await own_link.call(ADD, "q", 1)  # it accepts connections, and says nothing
    finally:
        server.thaw()

    assert await own_link.call(ECHO, "q", "mine") == b"mine"
    assert await own_link.call(SUM, "q") == 2


@pytest.mark.promise("P-82", "P-98")
async def test_a_connection_that_the_server_closed_is_noticed_before_it_is_used(
    own_link: Link, server: RedisServer
) -> None:
    await own_link.call(ADD, "q", 1)
    server.ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    await asyncio.to_thread(until, lambda: not clients(server), "the server has closed it")
    (lane,) = await own_link.route().all()
    while lane.is_connected:  # noqa: ASYNC110  bounded: the end is read in the loop's next turns
        await asyncio.sleep(0)

    assert await own_link.call(ADD, "q", 1) == 2


@pytest.mark.promise("P-98")
async def test_a_server_that_is_away_is_reached_again_when_it_is_back(
    own_link: Link, server: RedisServer
) -> None:
    await own_link.call(ECHO, "q", 1)
    server.kill()
    with pytest.raises((BackendUnavailable, IndeterminateWrite)):
        await own_link.call(ADD, "q", 1)
    with pytest.raises(BackendUnavailable, match="nothing was sent"):
        await own_link.call(ADD, "q", 1)
    server.restart()

    assert await own_link.call(ADD, "q", 1) == 1


@pytest.mark.promise("E-65")
async def test_requests_beyond_the_bound_are_refused_at_once(server: RedisServer) -> None:
    from dataclasses import replace

    link = Link(replace(located(server.url), request_limit=3))
    calls = [asyncio.ensure_future(link.call(ADD, "q", 1)) for _ in range(5)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(one) for one in outcomes] == [int, int, int, BackendUnavailable, BackendUnavailable]
    assert "raise request_limit" in str(outcomes[-1])
    await link.close()


@pytest.mark.promise("P-82")
async def test_a_closed_link_refuses_and_can_be_opened_again(own_link: Link) -> None:
    slow = made("slow", "for at = 1, 1000000 do end return 1")
    under_way = asyncio.ensure_future(own_link.call(slow, "q"))
    await asyncio.sleep(0)
    await own_link.close()

    assert await under_way == 1
    with pytest.raises(BackendUnavailable, match="closed"):
        await own_link.call(ECHO, "q", 1)
    own_link.open()
    assert await own_link.call(ECHO, "q", 1) == b"1"


@pytest.mark.promise("A-19")
async def test_a_forked_child_uses_a_connection_of_its_own(own_link: Link, server: RedisServer) -> None:
    await own_link.call(ADD, "q", 1)
    before = clients(server)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            asyncio.events._set_running_loop(None)
            code = 0 if asyncio.run(own_link.call(ADD, "q", 1)) == 2 else 2
        finally:
            os._exit(code)
    _, status = await asyncio.to_thread(os.waitpid, child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert await own_link.call(ADD, "q", 1) == 3
    assert clients(server) == before
