"""Probes are answered by a thread of their own, whatever the loop does."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from leasemq import App
from leasemq.client.loop_thread import loop_thread
from leasemq.errors import InvalidSetting
from leasemq.serving.attendant import Attendant
from leasemq.serving.probes import AT_ONCE, REQUEST_BYTES, ProbeAddress, ProbeServer
from leasemq.serving.view import NOT_BEGUN, View, view_of
from leasemq.worker import Worker
from leasemq.worker.health import Health, Phase
from tests.end_to_end.waiting import until
from tests.serving.ask import PATIENCE_S, ask, ask_raw

READY = View(startup=True, ready=True, live=True, facts={"phase": "claiming"})


@pytest.fixture
def server() -> Iterator[ProbeServer]:
    """A server that always answers the same."""
    server = ProbeServer(ProbeAddress(port=0), lambda: READY)
    yield server
    server.close()


def health(phase: Phase = Phase.CLAIMING, **facts: int) -> Health:
    """A worker with leases of 30 s."""
    return Health(phase=phase, slots=10, lease_ms=30_000, **facts)


@pytest.mark.promise("P-84")
@pytest.mark.parametrize(
    ("looked", "startup", "ready", "live"),
    [
        (view_of(health(Phase.STARTING), 0), False, False, True),
        (view_of(health(), 0), True, True, True),
        (view_of(health(Phase.DRAINING), 0), True, False, True),
        (
            view_of(Health(phase=Phase.CLAIMING, slots=1, lease_ms=9, is_connected=False), 0),
            True,
            False,
            True,
        ),
        (view_of(health(), 60_000), True, True, True),
        (view_of(health(stuck=9), 0), True, True, True),
        (view_of(health(stuck=10), 0), True, False, True),
        (view_of(Health(phase=Phase.CLAIMING, slots=1, lease_ms=9), 60_000), True, True, True),
        (view_of(health(), 120_001), True, True, False),
        (view_of(health(keeper_silent_ms=60_500), 0), True, True, True),
        (view_of(health(keeper_silent_ms=120_001), 0), True, True, False),
        (view_of(Health(phase=Phase.CLAIMING, slots=1, lease_ms=60_000), 200_000), True, True, True),
    ],
)
def test_what_a_worker_is_judged_to_be(looked: View, startup: bool, ready: bool, live: bool) -> None:
    assert (looked.startup, looked.ready, looked.live) == (startup, ready, live)


@pytest.mark.promise("P-84")
def test_each_probe_has_its_answer_as_status_and_as_json() -> None:
    view = View(startup=True, ready=False, live=True, facts={"phase": "draining"})
    server = ProbeServer(ProbeAddress(port=0), lambda: view)
    try:
        assert [ask(server.port, path).status for path in ("/live", "/ready", "/startup?x=1")] == [
            200,
            503,
            200,
        ]
        assert ask(server.port, "/ready").body == {
            "phase": "draining",
            "live": True,
            "ready": False,
            "startup": True,
        }
        head_only = ask(server.port, "/ready", "HEAD")
        assert (head_only.status, head_only.body) == (503, None)
    finally:
        server.close()


@pytest.mark.promise("P-84")
@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 404),
        (b"GET /live/../etc HTTP/1.1\r\n\r\n", 404),
        (b"POST /live HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", 405),
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x00\xff\n\n", 400),
        (b"GET /live HTTP/1.1\r\nX: " + b"x" * REQUEST_BYTES, 431),
    ],
)
def test_what_is_no_probe_is_refused(server: ProbeServer, request_bytes: bytes, status: int) -> None:
    assert ask_raw(server.port, request_bytes).status == status
    assert ask(server.port, "/live").status == 200


@pytest.mark.promise("P-84")
def test_silent_connections_hold_up_only_so_many_probes_and_only_for_a_while(server: ProbeServer) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(AT_ONCE - 1)]
    assert ask(server.port, "/live").status == 200
    for connection in silent:
        connection.settimeout(30)
        assert connection.recv(100).startswith(b"HTTP/1.1 408 ")
        connection.close()
    assert ask(server.port, "/live").status == 200


@pytest.mark.promise("P-84")
def test_many_silent_connections_give_way_to_a_probe(server: ProbeServer) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3 * AT_ONCE)]
    assert [ask(server.port, "/live").status for _ in range(5)] == [200] * 5
    for connection in silent:
        connection.close()


@pytest.mark.promise("P-84")
def test_a_port_that_is_taken_is_refused_with_its_number(server: ProbeServer) -> None:
    with pytest.raises(InvalidSetting, match=f"port {server.port} of 127.0.0.1.*in use"):
        ProbeServer(ProbeAddress(port=server.port), lambda: READY)


@pytest.mark.parametrize(("port", "host"), [(-1, "127.0.0.1"), (65_536, "127.0.0.1"), (0, "")])
def test_an_address_that_is_none_is_refused(port: int, host: str) -> None:
    with pytest.raises(InvalidSetting, match="probe_"):
        ProbeAddress(port=port, host=host)


def test_a_worker_that_has_not_begun_is_live_and_nothing_else() -> None:
    with Attendant(ProbeAddress(port=0), environment={}) as attendant:
        assert attendant.view() == NOT_BEGUN
        assert attendant.probe_port is not None
        assert ask(attendant.probe_port, "/startup").status == 503


@pytest.mark.promise("P-84")
def test_the_probes_follow_a_worker_through_its_life_and_tell_a_blocked_loop_as_a_fact() -> None:
    app = App("memory://")
    blocked, go_on = threading.Event(), threading.Event()
    workers: list[Worker] = []

    @app.task(name="block")
    async def block() -> None:
        blocked.set()
        while not go_on.is_set():
            pass

    async def serve(attendant: Attendant) -> None:
        async with app:
            workers.append(app.worker(drain=5))
            attendant.attend(workers[0].health)
            await workers[0].run()

    with Attendant(ProbeAddress(port=0), environment={}) as attendant:
        port = attendant.probe_port or 0

        def statuses() -> list[int]:
            return [ask(port, path).status for path in ("/live", "/ready", "/startup")]

        assert statuses() == [200, 503, 503]
        serving = threading.Thread(target=lambda: asyncio.run(serve(attendant)), daemon=True)
        serving.start()
        until(lambda: statuses() == [200, 200, 200], "the worker is ready")
        app.tasks["block"].enqueue_sync()
        assert blocked.wait(PATIENCE_S)
        asked = ask(port, "/live")
        go_on.set()
        assert asked.status == 200
        assert asked.body["loop_silent_s"] > 0
        assert asked.body["running"] == 1
        until(lambda: ask(port, "/ready").body["loop_silent_s"] == 0, "the loop turns")
        workers[0].stop()
        assert workers[0].health().phase is Phase.DRAINING
        serving.join(PATIENCE_S)
        assert statuses() == [200, 503, 200]
    loop_thread().close()
