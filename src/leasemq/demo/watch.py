"""What can be seen of a run while it lasts: its ledgers, read again and again, and drawn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from leasemq.clock import boot_ms
from leasemq.demo.crew import Crew
from leasemq.demo.ledger import Ledgers, Line
from leasemq.demo.screen import Screen, bar

_LOOK_EVERY_S = 0.03
_TELL_EVERY_MS = 2_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """All ledgers at one moment."""

    lines: tuple[Line, ...]

    def of(self, event: str) -> list[Line]:
        """The lines of one kind."""
        return [line for line in self.lines if line["event"] == event]

    @property
    def done(self) -> frozenset[str]:
        """The jobs whose newest run is finished."""
        newest: dict[str, int] = {}
        for start in self.of("start"):
            newest[start["job"]] = max(start["fence"], newest.get(start["job"], 0))
        return frozenset(end["job"] for end in self.of("end") if end["fence"] == newest.get(end["job"]))

    def run_in(self, pid: int) -> Line | None:
        """The start of what a process is at just now; None if it is between two jobs."""
        own = [line for line in self.lines if line["pid"] == pid and line["event"] in ("start", "end")]
        return own[-1] if own and own[-1]["event"] == "start" else None

    def runs_of(self, job: str) -> list[Line]:
        """The starts of one job, the oldest attempt first."""
        starts = [line for line in self.of("start") if line["job"] == job]
        return sorted(starts, key=lambda line: line["fence"])


class Watch:
    """Looks, draws, and waits for what is to be seen. Owner: the demo's main thread."""

    def __init__(
        self, ledgers: Ledgers, crew: Crew, screen: Screen, jobs: int, check: Callable[[], None]
    ) -> None:
        self._ledgers = ledgers
        self._crew = crew
        self._screen = screen
        self._jobs = jobs
        self._check = check
        self._began_ms = boot_ms()
        self._told_ms = 0
        self._pause = threading.Event()  # never set: waited on instead of sleeping

    @property
    def elapsed_ms(self) -> int:
        """How long the run has lasted."""
        return boot_ms() - self._began_ms

    def tell(self, text: str) -> None:
        """Print what happened, with the time since the start."""
        self._screen.say(f"{self.elapsed_ms / 1_000:5.1f} s  {text}")

    def look(self) -> Seen:
        """Read the ledgers, and draw what they say. Raises what `check` does."""
        self._check()
        seen = Seen(lines=tuple(self._ledgers.look()))
        self._screen.draw(self._block(seen))
        return seen

    def until(self, found: Callable[[Seen], T | None], within_ms: int) -> T | None:
        """Answer the first truthy value of `found`, or None after `within_ms`."""
        deadline_ms = boot_ms() + within_ms
        while True:
            seen = self.look()
            self._tell_now_and_then(seen)
            value = found(seen)
            if value or boot_ms() >= deadline_ms:
                return value or None
            self._pause.wait(_LOOK_EVERY_S)

    def _tell_now_and_then(self, seen: Seen) -> None:
        """Where nothing is drawn, a line from time to time says that it goes on."""
        if not self._screen.is_live and self.elapsed_ms - self._told_ms >= _TELL_EVERY_MS:
            self._told_ms = self.elapsed_ms
            self.tell(f"{len(seen.done)} of {self._jobs} files done")

    def _block(self, seen: Seen) -> Sequence[str]:
        lines = [f"{self.elapsed_ms / 1_000:5.1f} s  {bar(len(seen.done), self._jobs)}"]
        for pid in self._crew.alive:
            run = seen.run_in(pid)
            doing = "between two jobs" if run is None else f"{run['job']}, attempt {run['attempt']}"
            state = "FROZEN " if self._crew.is_frozen(pid) else ""
            lines.append(f"         {self._crew.name(pid)} (pid {pid}): {state}{doing}")
        return lines
