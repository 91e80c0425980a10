"""What a job in a warm child process costs, beside a bare pipe round trip between two processes.

    python -m tests.worker.measure_processes

Both are measured in turns, one of each after the other, so that both meet the same machine; a round
answers the medians of its turns. The job's time is that from handing the attempt to the pool to having
its outcome; the pipe carries as many bytes each way as the job's frames take.

On one core, and then as the kernel places them. It keeps the two ends of a bare pipe together, and wakes
whoever waits for many sockets on another core if one is idle; on a virtual machine that alone costs as
much as several round trips, whatever is sent. So the two are compared on one core.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from statistics import median
from typing import cast

from leasemq.protocol.decide import Returned
from leasemq.protocol.model import Fence, Keep, Lease, Noted, Ref
from leasemq.protocol.signature import Signature
from leasemq.worker.attempt import Attempt, Transacting
from leasemq.worker.pipe import framed
from leasemq.worker.processes import Processes, _order
from leasemq.worker.routine import Executor, Routine
from tests.worker import in_children

TURNS = 300
ROUNDS = 7
AT_ONCE_BYTES = 65_536
_ECHO = """
import os, sys
source, sink = map(int, sys.argv[1:])
while data := os.read(source, 65536):
    os.write(sink, data)
"""


@dataclass(frozen=True, slots=True)
class Round:
    """The medians of one round, in microseconds."""

    job_us: float
    pipe_us: float

    @property
    def ratio(self) -> float:
        """How many round trips a job takes."""
        return self.job_us / self.pipe_us


class Pipe:
    """Two pipes to a process that sends back what it reads. Owner: `bare_pipe`."""

    def __init__(self, write_end: int, read_end: int) -> None:
        self._write_end = write_end
        self._read_end = read_end

    def trip_us(self, data: bytes) -> float:
        """Send the bytes there and back, and answer how long it took."""
        start_ns = time.perf_counter_ns()
        os.write(self._write_end, data)
        os.read(self._read_end, AT_ONCE_BYTES)
        return (time.perf_counter_ns() - start_ns) / 1_000


@contextmanager
def bare_pipe() -> Iterator[Pipe]:
    """Start the other process; it ends when its pipe is closed."""
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    program = [sys.executable, "-S", "-E", "-c", _ECHO, str(theirs_in), str(theirs_out)]
    other = subprocess.Popen(program, pass_fds=(theirs_in, theirs_out))
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        yield Pipe(ours_out, ours_in)
    finally:
        os.close(ours_out)
        other.wait()
        os.close(ours_in)


@asynccontextmanager
async def warm_pool() -> AsyncIterator[Processes]:
    """A pool without a worker around it, closed at the end."""
    processes = Processes(asyncio.Event())
    try:
        for _ in range(50):
            await processes.run(attempt())
        yield processes
    finally:
        await processes.close()


_ADD = Routine(
    name="add",
    call=in_children.add,
    is_async=False,
    takes_context=False,
    signature=Signature.of(in_children.add, task="add"),
    executor=Executor.PROCESS,
)


_NO_TRANSACTIONS = cast("Transacting", None)  # the function begins none


def attempt() -> Attempt:
    """One attempt of a small job."""
    lease = Lease(
        ref=Ref(queue="default", id="01890a5d-ac96-774b-bcce-b302099a8057", generation=1),
        fence=Fence(number=1 << 50, nonce="0" * 32),
        task=_ADD.name,
        payload=_ADD.signature.encode_arguments((2, 3), {}),
        attempts=1,
        failures=0,
        stalls=0,
        max_stalls=2,
        keep=Keep(),
        created_ms=0,
        lease_until_ms=1 << 50,
        incarnation="0" * 32,
    )
    return Attempt(
        lease=lease,
        routine=_ADD,
        serial=1,
        loop=asyncio.get_running_loop(),
        write_note=_no_notes,
        transactions=_NO_TRANSACTIONS,
        retry=None,
        timeout_ms=None,
        cancel_requested=False,
    )


async def _no_notes(attempt: Attempt, note: object) -> Noted:
    raise AssertionError("the function writes none")


async def measure(processes: Processes, pipe: Pipe, turns: int = TURNS) -> Round:
    """Measure one round."""
    jobs_us: list[float] = []
    trips_us: list[float] = []
    data = framed(_order(attempt()))
    for _ in range(turns):
        one = attempt()
        start_ns = time.perf_counter_ns()
        happened = await processes.run(one)
        jobs_us.append((time.perf_counter_ns() - start_ns) / 1_000)
        assert isinstance(happened, Returned)
        trips_us.append(pipe.trip_us(data))
    return Round(median(jobs_us), median(trips_us))


async def rounds(count: int) -> list[Round]:
    """Measure some rounds."""
    with bare_pipe() as pipe:
        async with warm_pool() as processes:
            return [await measure(processes, pipe) for _ in range(count)]


@contextmanager
def on_one_core() -> Iterator[None]:
    """Keep this process, and what it starts meanwhile, on one core."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def main() -> None:
    """Print the rounds and their median ratio."""
    for where, keep in (("on one core", on_one_core), ("placed by the kernel", nullcontext)):
        with keep():
            measured = asyncio.run(rounds(ROUNDS))
        print(where)
        for one in measured:
            print(f"  job {one.job_us:7.1f} µs   pipe {one.pipe_us:7.1f} µs   ratio {one.ratio:5.2f}")
        print(f"  median ratio {median(one.ratio for one in measured):.2f}")


if __name__ == "__main__":
    main()
