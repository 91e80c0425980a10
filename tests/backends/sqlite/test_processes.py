"""Several processes on one file: fair turns, renewals first, forks, and processes that die or freeze."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leasemq.backends.sqlite import SqliteBackend
from leasemq.backends.sqlite.turn import Turn
from leasemq.clock import boot_ms
from leasemq.protocol.model import NewJob, Renewal
from leasemq.testing.conformance import builders
from tests.backends.sqlite.conftest import Open
from tests.backends.sqlite.measure import new_jobs

RUN_MS = 1_500
WORKING = """
import asyncio, secrets, sys
from leasemq.backends.sqlite import SqliteBackend
from leasemq.clock import boot_ms
from leasemq.protocol.model import Claimant
from tests.backends.sqlite.measure import completed

async def main(path: str, batch: int, run_ms: int) -> None:
    backend = SqliteBackend(path, sync="normal")
    await backend.prepare()
    print("ready", flush=True)
    sys.stdin.readline()
    done, until_ms = 0, boot_ms() + run_ms
    while boot_ms() < until_ms:
        claimant = Claimant(worker="w", incarnation="i", request_id=secrets.token_hex(16))
        leases = (await backend.claim("measured", batch, 30_000, claimant)).leases
        assert len(leases) == batch
        await backend.settle("measured", [completed(lease) for lease in leases])
        done += batch
    print(done, flush=True)
    await backend.close()

asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
"""


class Program:
    """A Python program in a process of its own. Owner: the fixture that started it."""

    def __init__(self, source: str, *arguments: object) -> None:
        command = [sys.executable, "-c", source, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    async def line(self) -> str:
        """Answer the next line that it prints."""
        assert self.process.stdout is not None
        return (await asyncio.wait_for(asyncio.to_thread(self.process.stdout.readline), 60)).strip()

    def go(self) -> None:
        """Let it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Wait until it has ended; answers its exit code."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        return self.process.wait(60)


Start = Callable[..., Awaitable[Program]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start programs, each answered when it says that it is ready; what is left of them is killed."""
    programs: list[Program] = []

    async def started(source: str, *arguments: object) -> Program:
        programs.append(Program(source, *arguments))
        assert await programs[-1].line() == "ready"
        return programs[-1]

    yield started
    for program in programs:
        program.process.kill()
        program.end()


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a side file's lock, as a process does that was frozen in the middle of its turn."""
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(file)


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.promise("P-93")
@pytest.mark.parametrize(("batch", "jobs"), [(1, 30_000), (100, 200_000)])
async def test_two_processes_side_by_side_get_equal_shares(
    path: Path, start: Start, batch: int, jobs: int
) -> None:
    backend = SqliteBackend(path, sync="normal")
    await backend.prepare()
    for _ in range(0, jobs, 1_000):
        await backend.enqueue("measured", new_jobs(1_000))
    await backend.close()
    programs = [await start(WORKING, path, batch, RUN_MS) for _ in range(2)]

    for program in programs:
        program.go()
    done = [int(await program.line()) for program in programs]

    shares = [number / sum(done) for number in done]
    assert all(0.35 < share < 0.65 for share in shares), f"{done} jobs: {shares}"
    assert [program.end() for program in programs] == [0, 0]


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.promise("P-16", "P-93")
async def test_renewals_do_not_queue_behind_busy_processes(path: Path, start: Start) -> None:
    backend = SqliteBackend(path, sync="normal")
    await backend.prepare()
    for _ in range(100):
        await backend.enqueue("measured", new_jobs(1_000))
    await backend.enqueue("mail", [builders.new_job("a")])
    (lease,) = (await backend.claim("mail", 1, 30_000, builders.claimant())).leases
    renewer = backend.renewer()
    programs = [await start(WORKING, path, 100, RUN_MS) for _ in range(2)]
    for program in programs:
        program.go()

    waits_ms = []
    until_ms = boot_ms() + RUN_MS - 300
    while boot_ms() < until_ms:
        started_ms = boot_ms()
        answers = await asyncio.to_thread(renewer.renew, "mail", [("a", lease.fence)], 30_000)
        waits_ms.append(boot_ms() - started_ms)
        assert answers == (Renewal.HELD,)

    renewer.close()
    await backend.close()
    assert [int(await program.line()) > 0 for program in programs] == [True, True]
    assert len(waits_ms) > 20
    assert max(waits_ms) < 500, f"renewals waited {sorted(waits_ms)[-5:]} ms"


@pytest.mark.promise("P-93")
@pytest.mark.parametrize("side", ["turn", "next"])
async def test_a_process_frozen_in_its_turn_only_delays_the_others(
    backend: SqliteBackend, path: Path, side: str
) -> None:
    with held(Path(f"{path}-{side}")):
        started_ms = boot_ms()
        for number in range(20):
            await backend.enqueue("mail", [builders.new_job(f"j{number}")])
        waited_ms = boot_ms() - started_ms

    assert (await backend.counts("mail")).waiting == 20
    assert waited_ms < 2_000


def test_the_one_who_has_just_written_queues_behind_the_one_who_waits(path: Path) -> None:
    first, second, third = (Turn(str(path)) for _ in range(3))
    first.take(first=False)
    waiting = Turn(str(path))._next  # what a waiting writer holds
    waiting.take(first._pause)
    first.give_back()

    assert not first._next._try()  # the next turn is the waiting one's
    second.take(first=True)  # but a renewal goes ahead
    second.give_back()
    waiting.give_back()
    third.take(first=False)
    for turn in (first, second, third):
        turn.close()
    waiting.close()


def test_a_folder_without_room_for_side_files_is_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "jobs.db-turn").mkdir()  # it cannot be opened for writing
    backend = SqliteBackend(tmp_path / "jobs.db", inline=True, sync="off")

    async def use() -> int:
        await backend.prepare()
        await backend.enqueue("mail", [builders.new_job("a")])
        counted = (await backend.counts("mail")).waiting
        await backend.close()
        return counted

    assert asyncio.run(use()) == 1


@pytest.mark.promise("P-93", "B43")
def test_a_forked_child_and_its_parent_both_go_on(path: Path) -> None:
    backend = SqliteBackend(path, sync="normal")

    async def enqueued(name: str) -> int:
        answers = await backend.enqueue("mail", [builders.new_job(f"{name}-{n}") for n in range(50)])
        return sum(answer.created for answer in answers)

    async def set_up() -> None:
        await backend.prepare()
        await enqueued("parent")

    asyncio.run(set_up())
    children = [_forked(lambda n=n: asyncio.run(enqueued(f"child-{n}")) == 50) for n in range(3)]

    assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
    assert asyncio.run(enqueued("again")) == 50
    assert asyncio.run(_waiting(backend)) == 250


def _forked(work: Any) -> int:  # Any: a call that answers whether all went well
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if work() else 1
        finally:
            os._exit(code)
    return child


async def _waiting(backend: SqliteBackend) -> int:
    waiting = (await backend.counts("mail")).waiting
    await backend.close()
    return waiting


@pytest.mark.promise("P-93", "B43")
async def test_a_fork_in_the_middle_of_the_work_leaves_the_child_able_to_work(backend: SqliteBackend) -> None:
    """A thread that is inside SQLite when the process forks would leave its mutexes locked in the child."""

    async def busy() -> None:
        while True:
            await backend.enqueue("mail", [builders.new_job("a")])
            await backend.get("mail", ["a"])

    def child() -> bool:
        signal.alarm(20)  # ends a child that hangs
        return asyncio.run(_waiting(backend)) == 1

    await backend.enqueue("mail", [builders.new_job("a")])
    async with backend.listen(["mail"]):
        working = asyncio.create_task(busy())
        codes = []
        for _ in range(10):
            await asyncio.sleep(0)
            process = await asyncio.to_thread(_forked, child)
            codes.append(await asyncio.to_thread(os.waitpid, process, 0))
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)

    assert [code for _, code in codes] == [0] * 10


@pytest.mark.promise("P-01", "P-02", "P-93")
async def test_what_a_killed_process_was_told_is_stored_and_the_file_is_sound(
    path: Path, opened: Open, start: Start
) -> None:
    enqueueing = """
import asyncio, sys
from leasemq.backends.sqlite import SqliteBackend
from leasemq.protocol.model import NewJob
async def main() -> None:
    backend = SqliteBackend(sys.argv[1], sync="normal")
    await backend.prepare()
    print("ready", flush=True)
    for number in range(1_000_000):
        await backend.enqueue("mail", [NewJob(id=f"j{number}", task="t", payload=b"p")])
        print(number, flush=True)
asyncio.run(main())
"""
    program = await start(enqueueing, path)
    told = -1
    while told < 50:
        told = int(await program.line())
    program.process.kill()
    assert program.process.stdout is not None
    rest = (await asyncio.to_thread(program.process.stdout.read)).split()
    told = int(rest[-1]) if rest else told

    backend = await opened()
    records = await backend.get("mail", [f"j{number}" for number in range(told + 1)])
    assert all(record is not None for record in records)
    counts = await backend.counts("mail")
    assert told + 1 <= counts.accepted == counts.waiting <= told + 2
    check = await backend._read(lambda step: step.connection.execute("PRAGMA integrity_check").fetchall())
    assert check == [("ok",)]


@pytest.mark.promise("P-93", "P-03")
async def test_a_job_is_stored_once_however_many_processes_send_it(opened: Open) -> None:
    backends = [await opened() for _ in range(4)]
    jobs = [NewJob(id=f"j{number}", task="t", payload=b"p") for number in range(50)]

    answers = await asyncio.gather(*(backend.enqueue("mail", jobs) for backend in backends))

    created = [answer.ref.id for batch in answers for answer in batch if answer.created]
    assert sorted(created) == sorted(job.id for job in jobs)
