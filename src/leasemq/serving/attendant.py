"""Tells outsiders how one worker is: probes when they ask, systemd and a supervisor by itself."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Self

from leasemq.clock import Clock, boot_ms
from leasemq.serving.notify import systemd
from leasemq.serving.probes import ProbeAddress, ProbeServer
from leasemq.serving.reports import Reporter
from leasemq.serving.view import NOT_BEGUN, LoopWatch, View, view_of
from leasemq.worker.health import Health

TELL_MS = 500

Hear = Callable[[View], None]


class Attendant:
    """Serves one run of a worker. Owner: `App.run_worker`, as a context around the event loop.

    Args:
        probes: where to answer them; refused here if the address cannot be had.
        reporter: the pipe to the supervisor that started this process.
    """

    def __init__(
        self,
        probes: ProbeAddress | None = None,
        reporter: Reporter | None = None,
        environment: Mapping[str, str] = os.environ,
        clock: Clock = boot_ms,
    ) -> None:
        self._probes = probes
        self._clock = clock
        self._watched: tuple[Callable[[], Health], LoopWatch] | None = None
        self._closed = threading.Event()
        self._server: ProbeServer | None = None
        self._thread: threading.Thread | None = None
        service = systemd(environment, clock)
        self._tell_ms = TELL_MS
        if service is not None and service.watchdog_ms is not None:
            self._tell_ms = max(1, min(TELL_MS, service.watchdog_ms // 4))
        self._ears: list[Hear] = [one.hear for one in (service, reporter) if one is not None]

    def __enter__(self) -> Self:
        if self._probes is not None:
            self._server = ProbeServer(self._probes, self.view)
        if self._ears:
            self._thread = threading.Thread(target=self._tell, name="leasemq-attendant", daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        if self._thread is not None:
            self._thread.join(TELL_MS / 1_000)
        if self._server is not None:
            self._server.close()

    @property
    def probe_port(self) -> int | None:
        """Where probes are answered, once they are."""
        return None if self._server is None else self._server.port

    def attend(self, health: Callable[[], Health]) -> None:
        """Tell about the worker that runs in the running loop, from here on."""
        self._watched = (health, LoopWatch(asyncio.get_running_loop(), self._clock))

    def view(self) -> View:
        """Answer how the worker is, now; from any thread but the loop's."""
        if self._watched is None:
            return NOT_BEGUN
        health, watch = self._watched
        return view_of(health(), watch.silent_ms())

    def _tell(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._closed.wait(self._tell_ms / 1_000)
            view = self.view()
            for hear in self._ears:
                hear(view)
