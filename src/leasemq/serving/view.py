"""What a probe is told about a worker, and whether its loop turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from leasemq.clock import Clock
from leasemq.worker.health import Health, Phase

LIVE_MS = 120_000
LEASES_UNTIL_DEAD = 4
ANSWER_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """The answers to the three probes, and the facts behind them: counts and states, nothing of a job's."""

    startup: bool
    ready: bool
    live: bool
    is_stopping: bool = False
    facts: Mapping[str, object] = field(default_factory=dict)


NOT_BEGUN = View(startup=False, ready=False, live=True, facts={"phase": Phase.STARTING.value})


def view_of(health: Health, loop_silent_ms: int) -> View:
    """Judge a worker.

    It is *live* while its loop and its keeper were last heard of within two minutes, or four leases if that
    is longer. Ending the process costs every job in it an attempt, and a function that blocks the loop for a
    while costs only waiting, because the keeper renews from a thread of its own; so liveness is for what a
    restart alone can mend. The keeper looks at least once a minute.
    """
    bound_ms = max(LIVE_MS, LEASES_UNTIL_DEAD * health.lease_ms)
    is_claiming = health.phase is Phase.CLAIMING
    return View(
        startup=health.phase is not Phase.STARTING,
        ready=is_claiming and health.is_connected and health.stuck < health.slots,
        live=loop_silent_ms <= bound_ms and health.keeper_silent_ms <= bound_ms,
        is_stopping=health.phase is Phase.DRAINING,
        facts={
            "phase": health.phase.value,
            "backend": "reachable" if health.is_connected else "lost",
            "slots": health.slots,
            "running": health.running,
            "stuck": health.stuck,
            "unsettled": health.held - health.running,
            "loop_silent_s": loop_silent_ms / 1_000,
            "keeper_silent_s": health.keeper_silent_ms / 1_000,
        },
    )


class LoopWatch:
    """For how long a loop has not turned. It is asked on demand, so that a worker is not woken for nothing.

    Owner: the attendant; from any thread but the loop's.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock
        self._lock = threading.Lock()
        self._turned = threading.Event()
        self._asked_ms: int | None = None  # since when an answer is waited for

    def silent_ms(self) -> int:
        """Answer 0 if the loop answers at once, else since when it was asked to."""
        with self._lock:
            if self._asked_ms is None or self._turned.is_set():
                self._turned.clear()
                self._asked_ms = self._clock()
                try:
                    self._loop.call_soon_threadsafe(self._turned.set)
                except RuntimeError:  # it is closed: the process is about to end
                    return 0
            asked_ms = self._asked_ms
        return 0 if self._turned.wait(ANSWER_S) else self._clock() - asked_ms
