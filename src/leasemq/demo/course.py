"""The course of a run: what is done to the workers while they work, and what is waited for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from leasemq.demo.crew import Crew
from leasemq.demo.in_front import held
from leasemq.demo.ledger import Ledger, Line
from leasemq.demo.plan import Order, Weight
from leasemq.demo.producer import Producer
from leasemq.demo.watch import Seen, Watch
from leasemq.demo.work import LEASE_S

_LEASE_MS = LEASE_S * 1_000
_START_MS = 15_000  # for two processes to start, on a busy machine
_TAKEOVER_MS = 5 * _LEASE_MS  # a lease, a sweep, the jobs before it, and room for a busy machine
_LAST_HOPE_MS = 2 * _LEASE_MS  # where nobody recovered the killed worker's job either
_QUIET_MS = 4 * _LEASE_MS  # with no new line for so long, nothing will come any more
_TRIES = 5
_LATEST_MS = 180_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """One run, from the first worker to the last job. Owner: the demo's main thread."""

    crew: Crew
    watch: Watch
    producer: Producer
    ledger: Ledger
    orders: Sequence[Order]
    hold: Path

    def run(self) -> None:
        """Have all jobs done by two workers, killing one on the way and freezing another."""
        self.crew.start()
        self.crew.start()
        heavy = [order.id for order in self.orders if order.weight is Weight.HEAVY]
        self.producer.allow([order.id for order in self.orders].index(heavy[0]))
        has_recovered = self._kill_one()
        self.hold.write_text(" ".join(heavy), encoding="utf-8")
        self.producer.allow(len(self.orders))
        self._freeze_one(_TAKEOVER_MS if has_recovered else _LAST_HOPE_MS)
        self._finish()

    # ---- the worker that is killed

    def _kill_one(self) -> bool:
        """SIGKILL a worker in the middle of a job, and answer whether another took the job over."""
        victim = self.watch.until(self._caught_at_work, _START_MS)
        if victim is None:
            self.watch.tell("no worker was found in the middle of a long job, so none was killed")
            return True
        pid, job = victim["pid"], victim["job"]
        self.ledger.write("killed", victim=pid, job=job)
        self.crew.kill(pid)
        killed_ms = self.watch.elapsed_ms
        self.watch.tell(f"{self.crew.name(pid)} (pid {pid}) was KILLED in the middle of {job}")
        pid = self.crew.start()
        self.watch.tell(f"{self.crew.name(pid)} (pid {pid}) was started in its place")
        return self._wait_for_takeover(victim, killed_ms, _TAKEOVER_MS)

    def _caught_at_work(self, seen: Seen) -> Line | None:
        """Stop a worker in the middle of a long job and leave it so; one that was quicker goes on."""
        long_jobs = {order.id for order in self.orders if order.weight is Weight.LONG}
        for pid in self.crew.alive:
            run = seen.run_in(pid)
            if run is not None and run["job"] in long_jobs and self._stops_within(run):
                return run
        return None

    def _stops_within(self, run: Line) -> bool:
        """Stop the process of a run; if the run had ended before the stop, undo it."""
        pid = run["pid"]
        self.crew.freeze(pid)
        self.watch.until(lambda _: self.crew.is_frozen(pid), _LEASE_MS)
        is_within = self.watch.look().run_in(pid) == run
        if not is_within:
            self.crew.thaw(pid)
        return is_within

    # ---- the worker that is frozen

    def _freeze_one(self, patience_ms: int) -> None:
        """SIGSTOP a worker that is about to report a job, and let it go on when another runs the job."""
        holding = self.watch.until(lambda seen: seen.of("holding")[-1:], _START_MS)
        if holding is None:
            self.watch.tell("no worker came to report a heavy job, so none was frozen")
            return
        (run,) = holding
        name = f"{self.crew.name(run['pid'])} (pid {run['pid']})"
        if not self._stops_outside_of_a_write(run["pid"]):
            self.watch.tell(f"{name} could not be frozen outside of a write to the file")
        frozen_ms = self.watch.elapsed_ms
        self.ledger.write("frozen", victim=run["pid"], job=run["job"])
        self.watch.tell(f"{name} is FROZEN when {run['job']} is done and about to be reported")
        self._wait_for_takeover(run, frozen_ms, patience_ms)
        held(self.hold).unlink()
        self.crew.thaw(run["pid"])
        report = self.watch.until(lambda seen: seen.of("reported")[-1:], _TAKEOVER_MS)
        answer = "not answered" if report is None else f"answered {report[0]['answer']!r}"
        self.watch.tell(f"{name} was THAWED; its late report of {run['job']} was {answer}")

    def _stops_outside_of_a_write(self, pid: int) -> bool:
        """Stop a process without SQLite's write lock in its hands: nobody could do anything then.

        A heartbeat is a write, so that can happen; it goes on for a moment and is stopped anew.
        """
        for _ in range(_TRIES):
            self.crew.freeze(pid)
            self.watch.until(lambda _: self.crew.is_frozen(pid), _LEASE_MS)
            if self.producer.can_write():
                return True
            self.crew.thaw(pid)
            self.watch.until(lambda _: self.producer.can_write(), _LEASE_MS)
        return False

    # ---- both

    def _wait_for_takeover(self, run: Line, since_ms: int, within_ms: int) -> bool:
        """Wait until another process has the job under a larger fence, and answer whether it came to that."""

        def newer(seen: Seen) -> Line | None:
            starts = seen.runs_of(run["job"])
            return starts[-1] if starts and starts[-1]["fence"] > run["fence"] else None

        found = self.watch.until(newer, within_ms)
        took = f"{(self.watch.elapsed_ms - since_ms) / 1_000:.1f} s"
        if found is None:
            self.watch.tell(f"nobody took {run['job']} over within {took}")
            return False
        name = self.crew.name(found["pid"])
        self.watch.tell(f"{name} took {run['job']} over after {took}, as attempt {found['attempt']}")
        return True

    def _finish(self) -> None:
        """Wait for the last job, as long as anything still happens."""
        wanted = {order.id for order in self.orders}
        newest = (0, self.watch.elapsed_ms)

        def is_over(seen: Seen) -> bool:
            nonlocal newest
            if len(seen.lines) != newest[0]:
                newest = (len(seen.lines), self.watch.elapsed_ms)
            return wanted <= seen.done or self.watch.elapsed_ms - newest[1] > _QUIET_MS

        self.watch.until(is_over, _LATEST_MS)
        left = len(wanted - self.watch.look().done)
        self.watch.tell(f"not done: {left}, and nothing happens any more" if left else "all jobs are done")
