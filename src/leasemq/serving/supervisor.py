"""Runs several worker processes: starts them one by one, starts again what ended, passes signals on.

It imports nothing of the user's, opens no backend and runs no job, so that nothing but a signal ends it.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from leasemq.clock import Clock, boot_ms
from leasemq.events import ProcessEnded, ProcessStarted
from leasemq.logs import log_event
from leasemq.serving.notify import VARIABLES, systemd
from leasemq.serving.offspring import Command, Offspring
from leasemq.serving.probes import ProbeAddress, ProbeServer
from leasemq.serving.reports import HURRY
from leasemq.serving.restarts import deaths_in_a_row, restart_in_ms
from leasemq.serving.view import LIVE_MS, View

TURN_MS = 500  # the longest sleep
STAGGER_MS = 1_000  # the next process starts when the one before has begun, or after this
KILL_AFTER_MS = 5_000  # after a second signal
OWN_LIVE_MS = 30_000
logger = logging.getLogger("leasemq.supervisor")
USAGE, LEFT = 2, 1  # exit codes: it cannot even start; not everything was drained


class _Place:
    """One of the N: who is in it, or when somebody is again. Owner: the supervisor."""

    def __init__(self, name: str, now_ms: int) -> None:
        self.name = name
        self.child: Offspring | None = None
        self.deaths = 0
        self.start_at_ms = now_ms
        self.is_fallen = False  # whoever was in it ended without being told to


class Supervisor:
    """Owner: the main thread of a process of its own, which handles the signals.

    Args:
        command: how the process of a name is started, and told where to report.
        roll: dice from 0 to 1.
    """

    def __init__(
        self,
        names: Sequence[str],
        command: Command,
        *,
        roll: Callable[[], float],
        probes: ProbeAddress | None = None,
        environment: Mapping[str, str] = os.environ,
        clock: Clock = boot_ms,
    ) -> None:
        self._command = command
        self._roll = roll
        self._probes = probes
        self._clock = clock
        self._environment = {name: value for name, value in environment.items() if name not in VARIABLES}
        self._systemd = systemd(environment, clock)
        self._places = [_Place(name, clock()) for name in names]
        self._latest: Offspring | None = None  # the one that was started last
        self._rolling: deque[_Place] = deque()  # those that are still to be restarted in turn
        self._rolled: _Place | None = None  # the one whose turn it is
        self._stops = 0  # how often it was told to stop
        self._acted = 0  # how many of them were passed on
        self._kill_at_ms: int | None = None
        self._code = 0
        self._turned_ms = clock()
        self._view = self._seen()
        self._selector = selectors.DefaultSelector()

    def run(self) -> int:
        """Run until told to stop and all have ended; answers 0 only if every one of them has drained.

        Raises: InvalidSetting if the probes' address cannot be had.
        """
        server = None if self._probes is None else ProbeServer(self._probes, self._look)
        try:
            with self._signals():
                while not (self._acted and all(place.child is None for place in self._places)):
                    self._turn()
        finally:
            self._selector.close()
            if server is not None:
                server.close()
        return self._code

    def _turn(self) -> None:
        self._pass_stops_on()
        if not self._stops:
            self._start_due()
            self._roll_on()
        self._listen()
        for place in self._places:
            if place.child is not None and (code := place.child.ended()) is not None:
                self._bury(place, place.child, code)
            elif place.child is not None:
                self._end_if_dead(place.child)
        self._turned_ms = self._clock()
        self._view = self._seen()
        if self._systemd is not None:
            self._systemd.hear(self._look())

    # ---- signals

    @contextmanager
    def _signals(self) -> Iterator[None]:
        woken, waker = socket.socketpair()
        woken.setblocking(False)
        waker.setblocking(False)
        self._selector.register(woken, selectors.EVENT_READ)
        before = signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        wired = {signal.SIGTERM: self._stop, signal.SIGINT: self._stop, signal.SIGCHLD: self._wake}
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup(1) has it ignored
            wired[signal.SIGHUP] = self._stop if os.isatty(0) else self._begin_rolling
        kept = {number: signal.signal(number, act) for number, act in wired.items()}
        try:
            yield
        finally:
            for number, act in kept.items():
                signal.signal(number, act)
            signal.set_wakeup_fd(before)
            woken.close()
            waker.close()

    def _stop(self, *_: object) -> None:
        self._stops += 1

    def _begin_rolling(self, *_: object) -> None:
        self._rolling = deque(self._places)

    def _wake(self, *_: object) -> None:
        """Let the selector return: the wake-up descriptor does that for any signal with a handler."""

    def _pass_stops_on(self) -> None:
        now_ms = self._clock()
        while self._acted < self._stops:
            self._acted += 1
            if self._acted == 1:
                self._drain()
            elif self._acted == 2:
                self._kill_at_ms = now_ms + KILL_AFTER_MS
                self._signal_all(HURRY)
            else:
                self._kill_at_ms = now_ms
        if self._kill_at_ms is not None and now_ms >= self._kill_at_ms:
            self._signal_all(signal.SIGKILL)

    def _drain(self) -> None:
        living = sum(place.child is not None for place in self._places)
        logger.info("told to stop: %d worker processes drain", living)
        if any(place.is_fallen for place in self._places):
            self._code = self._code or LEFT  # what ran there was not drained
        self._signal_all(signal.SIGTERM)

    def _signal_all(self, number: signal.Signals) -> None:
        for place in self._places:
            if place.child is not None:
                place.child.signal(number)

    # ---- beginnings

    def _start_due(self) -> None:
        now_ms = self._clock()
        for place in self._places:
            if place.child is None and place.start_at_ms <= now_ms and not self._is_one_starting(now_ms):
                self._start(place, now_ms)

    def _is_one_starting(self, now_ms: int) -> bool:
        latest = self._latest
        return latest is not None and not latest.view.startup and now_ms - latest.started_ms < STAGGER_MS

    def _start(self, place: _Place, now_ms: int) -> None:
        try:
            child = Offspring(place.name, self._command, self._environment, now_ms)
        except OSError as error:
            self._await_restart(place, 0)
            log_event(
                ProcessEnded(
                    worker=place.name,
                    pid=0,
                    exit_code=error.errno or LEFT,
                    restart_in_ms=place.start_at_ms - now_ms,
                )
            )
            return
        place.child = self._latest = child
        place.is_fallen = False
        self._selector.register(child.reports, selectors.EVENT_READ, child)
        log_event(ProcessStarted(worker=place.name, pid=child.pid))

    def _roll_on(self) -> None:
        """Restart in turn: the next one when the successor of the one before is ready."""
        child = None if self._rolled is None else self._rolled.child
        if child is not None and child.view.ready and not child.is_told_to_stop:
            self._rolled = None
        if self._rolled is None and self._rolling:
            self._rolled = self._rolling.popleft()
            if self._rolled.child is not None:
                self._rolled.child.signal(signal.SIGTERM)

    # ---- ends

    def _listen(self) -> None:
        for key, _ in self._selector.select(self._wait_ms() / 1_000):
            if isinstance(key.data, Offspring):
                if not key.data.hear(self._clock()):
                    self._selector.unregister(key.fd)
            else:
                with suppress(BlockingIOError):
                    os.read(key.fd, 4_096)

    def _wait_ms(self) -> int:
        now_ms = self._clock()
        waits_ms = [place.start_at_ms - now_ms for place in self._places if place.child is None]
        if self._is_one_starting(now_ms) or self._stops:
            waits_ms = []
        return max(0, min([TURN_MS, *waits_ms]))

    def _bury(self, place: _Place, child: Offspring, code: int) -> None:
        with suppress(KeyError):  # it was unregistered when it closed its end
            self._selector.unregister(child.reports)
        child.close()
        place.child = None
        is_rolled = place is self._rolled and child.is_told_to_stop
        if code == USAGE and not child.view.startup and not self._stops:
            self._code, self._stops = USAGE, 1
        elif self._stops:
            # Without a handler for the signal yet, it cannot have claimed anything.
            is_drained = code == 0 or (code == -signal.SIGTERM and not child.view.startup)
            self._code = self._code or (0 if is_drained else max(code, LEFT))
        elif is_rolled and code == 0:
            place.start_at_ms = self._clock()
        else:
            place.is_fallen = True
            self._await_restart(place, self._clock() - child.started_ms)
        restart_ms = None if self._stops else place.start_at_ms - self._clock()
        log_event(ProcessEnded(worker=place.name, pid=child.pid, exit_code=code, restart_in_ms=restart_ms))

    def _await_restart(self, place: _Place, lived_ms: int) -> None:
        place.deaths = deaths_in_a_row(place.deaths, lived_ms)
        place.start_at_ms = self._clock() + restart_in_ms(place.deaths, self._roll())

    def _end_if_dead(self, child: Offspring) -> None:
        """End a process that a restart alone can mend; it is then started again like any that ended."""
        is_silent = child.has_reported and self._clock() - child.heard_ms > LIVE_MS
        if is_silent or not child.view.live:
            child.signal(signal.SIGKILL)

    # ---- what outsiders see

    def _look(self) -> View:
        """Answer how all of them are; from any thread."""
        return replace(self._view, live=self._clock() - self._turned_ms <= OWN_LIVE_MS)

    def _seen(self) -> View:
        views = {place.name: None if place.child is None else place.child.view for place in self._places}
        listed = list(views.values())
        ready = sum(view is not None and view.ready for view in listed)
        return View(
            startup=all(view is not None and view.startup for view in listed),
            ready=ready == len(listed) and not self._stops,
            live=True,
            is_stopping=self._stops > 0,
            facts={
                "phase": "draining" if self._stops else "supervising",
                "ready_processes": f"{ready} of {len(listed)}",
                "processes": {name: _told(view) for name, view in views.items()},
            },
        )


def _told(view: View | None) -> dict[str, object]:
    if view is None:
        return {"phase": "ended"}
    return {**view.facts, "startup": view.startup, "ready": view.ready, "live": view.live}
