"""One run of one contender, and rounds in which all take turns, so that a slow minute hits everybody."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from redis import Redis

from bench import figures
from bench.drivers import board
from bench.environments import python_of
from bench.figures import Sample
from bench.peers import Peer
from bench.servers import Ground, ground

DRIVERS = Path(__file__).parent / "drivers"
PATIENCE_S = 300.0
PORTION = 20_000  # jobs that are enqueued at a time where very many go through
TOLD_EVERY = 10  # portions between two words of how far it is
FILL = 100_000  # jobs that one call of a driver enqueues at most, so that its patience lasts
WARM_UP = 10  # jobs before those whose lateness counts: a worker tells nobody when it is up
SHALLOW, DEEP = 1_000, 1_000_000  # jobs that still wait at the end
SLOTS, SLEEP_S = 100, 0.05
Measure = Callable[[Peer, str, int], Sample]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What the rounds gave for one contender: every sample, in order."""

    peer: str
    samples: tuple[Sample, ...]

    def median(self, name: str) -> float:
        """Answer the median of one figure over the rounds."""
        return median(sample[name] for sample in self.samples)


def interleaved(
    peers: Sequence[Peer], backend: str, jobs: Mapping[str, int], rounds: int, measure: Measure
) -> list[Outcome]:
    """Let every peer run once per round; the first of a round is another one each time."""
    samples: dict[str, list[Sample]] = {peer.name: [] for peer in peers}
    for number in range(rounds):
        turn = number % len(peers)
        for peer in (*peers[turn:], *peers[:turn]):
            sample = measure(peer, backend, jobs.get(peer.name, jobs["default"]))
            samples[peer.name].append(sample)
            told = "  ".join(f"{name} {value:,.1f}" for name, value in sample.items())
            print(f"round {number + 1}  {peer.name:<14} {told}", file=sys.stderr, flush=True)
    return [Outcome(peer=name, samples=tuple(found)) for name, found in samples.items()]


def drain(peer: Peer, backend: str, jobs: int, *, processes: int = 1, work_ms: float = 0.0) -> Sample:
    """Fill a queue, then let workers empty it.

    Answers `jobs_per_s` (from the first handler to the last), `cpu_ms` and `server_cpu_ms` per 1,000 jobs
    (one process only), and `fill_per_s`, the rate of the bulk enqueue before it.
    """
    with ground(backend) as here, TemporaryDirectory(prefix="board-") as folder:
        place = Path(folder) / "board"
        board.create(place)
        shared = {"board": str(place), "work_ms": work_ms}
        filled = 0.0 if backend == "memory" else _told(peer, here, "fill", jobs)["seconds"]
        with _workers(peer, here, jobs, processes, shared) as running:
            _wait(partial(_has_done, place, jobs), running)
            seen = board.read(place)
    sample = figures.drained(seen)
    if filled:
        sample["fill_per_s"] = jobs / filled
    return sample


def enqueue(peer: Peer, backend: str, jobs: int, *, action: str) -> Sample:
    """Enqueue only: `single`, `gathered` or `fill`. Answers `jobs_per_s`."""
    with ground(backend) as here:
        return {"jobs_per_s": jobs / _told(peer, here, action, jobs)["seconds"]}


def depth(peer: Peer, backend: str, jobs: int) -> Sample:
    """Drain so many jobs with a million behind them, and with a thousand.

    Answers rate and CPU in ms per 1,000 jobs at both, and `deep_to_shallow`, the one rate over the other.
    """
    deep, shallow = (_at_depth(peer, backend, jobs, behind) for behind in (DEEP, SHALLOW))
    return {
        "deep_per_s": deep["jobs_per_s"],
        "shallow_per_s": shallow["jobs_per_s"],
        "deep_cpu_ms": deep["cpu_ms"] + deep["server_cpu_ms"],
        "shallow_cpu_ms": shallow["cpu_ms"] + shallow["server_cpu_ms"],
        "deep_to_shallow": deep["jobs_per_s"] / shallow["jobs_per_s"],
    }


def _at_depth(peer: Peer, backend: str, jobs: int, behind: int) -> Sample:
    with ground(backend) as here, TemporaryDirectory(prefix="board-") as folder:
        place = Path(folder) / "board"
        board.create(place)
        if backend != "memory":
            for start in range(0, jobs + behind, FILL):
                _told(peer, here, "fill", min(FILL, jobs + behind - start))
        with _workers(peer, here, jobs + behind, 1, {"board": str(place)}) as running:
            _wait(partial(_has_done, place, jobs), running)
            return figures.drained(board.read(place))


def sleepers(peer: Peer, backend: str, jobs: int) -> Sample:
    """Drain jobs that sleep. Answers the share of the rate that slots which are never empty would reach."""
    with ground(backend) as here, TemporaryDirectory(prefix="board-") as folder:
        place = Path(folder) / "board"
        board.create(place)
        slots = replace(peer, concurrency=SLOTS)
        if backend != "memory":
            _told(peer, here, "fill", jobs)
        with _workers(slots, here, jobs, 1, {"board": str(place), "sleep_s": SLEEP_S}) as running:
            _wait(partial(_has_done, place, jobs), running)
            return figures.slot_share(board.read(place), SLOTS, SLEEP_S)


def latency(peer: Peer, backend: str, jobs: int) -> Sample:
    """Enqueue now and then on an idle queue. Answers the milliseconds until a handler starts."""
    with ground(backend) as here, TemporaryDirectory(prefix="samples-") as folder:
        place = Path(folder) / "samples"
        place.touch()
        in_memory = backend == "memory"  # where the worker's own process enqueues
        if not in_memory:
            _told(peer, here, "fill", 0)  # makes the tables of those whose worker does not
        number = jobs + WARM_UP if in_memory else 0
        with _workers(peer, here, number, 1, {"samples": str(place)}) as running:
            for more in () if in_memory else (WARM_UP, jobs):
                _told(peer, here, "timed", more)
                number += more
                _wait(partial(_has_lines, place, number), running)
            _wait(partial(_has_lines, place, number), running)
        return figures.lateness([int(line) for line in _lines(place)[WARM_UP:]])


def _lines(place: Path) -> list[str]:
    return place.read_text(encoding="ascii").splitlines()


def _has_lines(place: Path, number: int) -> bool:
    return len(_lines(place)) >= number


def waiting_bytes(peer: Peer, backend: str, jobs: int) -> Sample:
    """Enqueue only. Answers how much memory a waiting job takes in Redis, without and with event streams."""
    with ground(backend) as here:
        _told(peer, here, "fill", 1)  # what is there once, however many jobs there are
        server = Redis.from_url(here.url)
        before, streams = _memory(server), _in_streams(server)
        _told(peer, here, "fill", jobs)
        grown, in_streams = _memory(server) - before, _in_streams(server) - streams
        server.close()
    return {"bytes": (grown - in_streams) / jobs, "with_events": grown / jobs}


def _memory(server: Redis) -> int:
    """Answer what the data take: neither the scripts' engine nor the buffers of whoever has just gone."""
    before, found = -1, _used(server)
    for _ in range(10):
        if found == before:
            break
        time.sleep(0.5)
        before, found = found, _used(server)
    return found


def _used(server: Redis) -> int:
    told = server.info("memory")
    return int(told["used_memory"]) - int(told["used_memory_vm_total"])


def _in_streams(server: Redis) -> int:
    """Answer the size of the streams that tell what happened, not of those that hold jobs."""
    names = [name for name in server.scan_iter(type="stream") if name.endswith((b":ev", b":events"))]
    return sum(server.memory_usage(name, samples=0) or 0 for name in names)


def through(peer: Peer, backend: str, jobs: int) -> Sample:
    """Send many jobs through one queue, never more than some thousands at once.

    Answers the rate of each quarter, `last_to_second`, the last over the second, and `disk_mb`, what is in
    the folder of the server or the store at the end: records and results are kept.
    """
    with ground(backend) as here, TemporaryDirectory(prefix="board-") as folder:
        place = Path(folder) / "board"
        board.create(place)
        marks = [(0, time.monotonic())]
        with _workers(peer, here, jobs, 1, {"board": str(place)}) as running:
            for sent in range(PORTION, jobs + 1, PORTION):
                _told(peer, here, "fill", PORTION)
                _wait(partial(_has_done, place, sent - PORTION), running)
                marks.append((_done(place), time.monotonic()))
                if sent % (PORTION * TOLD_EVERY) == 0:
                    _tell(marks, jobs)
            _wait(partial(_has_done, place, jobs // PORTION * PORTION), running)
            marks.append((_done(place), time.monotonic()))
        return {**figures.quarters(marks, jobs), "disk_mb": here.disk_bytes() / 1e6}


def _tell(marks: Sequence[figures.Mark], jobs: int) -> None:
    (count, now), before = marks[-1], marks[-1 - TOLD_EVERY]
    rate = (count - before[0]) / (now - before[1])
    print(f"  {count:,} of {jobs:,} jobs; {rate:,.0f}/s of late", file=sys.stderr, flush=True)


def _done(place: Path) -> int:
    return sum(row.count for row in board.read(place))


def _has_done(place: Path, jobs: int) -> bool:
    return _done(place) >= jobs


def _orders(peer: Peer, here: Ground, action: str, jobs: int, **more: Any) -> str:
    orders = {
        "action": action,
        "url": f"{here.url}{peer.url_query}",
        "jobs": jobs,
        "concurrency": peer.concurrency,
        "server_pids": list(here.server_pids),
        "options": dict(peer.options),
        **more,
    }
    return json.dumps(orders)


def _told(peer: Peer, here: Ground, action: str, jobs: int) -> dict[str, float]:
    """Run a driver to its end and answer what it printed."""
    done = subprocess.run(
        [str(python_of(peer)), str(DRIVERS / peer.driver), _orders(peer, here, action, jobs)],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{peer.name} could not {action}:\n{done.stderr[-3_000:]}")
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@contextmanager
def _workers(
    peer: Peer, here: Ground, jobs: int, processes: int, shared: Mapping[str, Any]
) -> Iterator[list[subprocess.Popen[bytes]]]:
    with TemporaryDirectory(prefix="worker-") as folder:
        logs = [Path(folder) / f"{row}.log" for row in range(processes)]
        started: list[subprocess.Popen[bytes]] = []
        try:
            for row, log in enumerate(logs):
                orders = _orders(peer, here, "work", jobs, row=row, **shared)
                with log.open("wb") as out:
                    command = [str(python_of(peer)), str(DRIVERS / peer.driver), orders]
                    started.append(subprocess.Popen(command, stdout=out, stderr=out))
            yield started
        except TimeoutError:
            texts = "\n".join(log.read_text(errors="replace")[-3_000:] for log in logs)
            raise SystemExit(f"{peer.name} did not finish:\n{texts}") from None
        finally:
            for process in started:
                process.kill()
                process.wait()


def _wait(condition: Callable[[], bool], running: Sequence[subprocess.Popen[bytes]]) -> None:
    """Wait for it while the workers live. Raises: TimeoutError, also when one of them has ended."""
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until or any(process.poll() is not None for process in running):
            raise TimeoutError
        time.sleep(0.05)
