"""Where one test's processes meet: a store, a ledger, gates; and the processes themselves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Unpack

import leasemq.backends.sqlite  # noqa: F401  reads files when first imported, which must not be in a loop
from leasemq import Job, State
from leasemq.client.schemes import open_backend
from leasemq.policy import CallOptions
from leasemq.protocol.insight import Counts, EventKind, JobRecord
from tests.end_to_end.apps.hooks import GO_ON, VARIABLE, Hook
from tests.end_to_end.apps.work import app_on, task_of
from tests.end_to_end.ledger import Ledger
from tests.end_to_end.waiting import PATIENCE_S, until
from tests.servers.stores import SERVED, served_store

ROOT = Path(__file__).parents[2]
QUEUE = "default"
COMMAND = (sys.executable, "-m", "leasemq")
APP = "tests.end_to_end.apps.serving:app"


class Process:
    """One process of a test. Owner: the Place that started it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as out:
            self._popen = subprocess.Popen(
                command, env=environment, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )
        self.pid = self._popen.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._popen.poll() is None

    @property
    def output(self) -> str:
        """What it printed so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        self._popen.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self._popen.kill()
        self._popen.wait()

    def thaw(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def is_stopped(self) -> bool:
        """Whether the kernel says so."""
        status = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace")
        return status.rpartition(")")[2].split()[0] == "T"

    def exit_code(self, within_s: float = PATIENCE_S) -> int:
        """Wait for its own end and answer the code."""
        try:
            return self._popen.wait(within_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"process {self.pid} did not end within {within_s:g} s") from None


class Place:
    """One test's folder and processes. Owner: the fixture, which ends what still runs."""

    def __init__(self, folder: Path, backend_name: str = "sqlite", *, is_served: bool = True) -> None:
        self.folder = folder
        self.backend_name = backend_name
        self.file = folder / "jobs.db"  # of SQLite
        self._served = served_store(backend_name) if is_served and backend_name in SERVED else None
        self.url = f"sqlite:///{self.file}" if self._served is None else self._served.url
        (folder / "ledger").mkdir()
        self.ledger = Ledger(folder / "ledger")
        self.app = app_on(self.url)
        self.processes: list[Process] = []

    def use(self, url: str) -> None:
        """Reach the same store by another URL from here on."""
        self.url = url
        self.app = app_on(url)

    def hurry(self) -> None:
        """Do without what only a power cut asks for."""
        if self.backend_name == "sqlite":
            self.use(f"{self.url}?sync=normal")

    def environment(self, name: str, hook: Hook | None = None) -> dict[str, str]:
        """What a process of this test finds in its environment."""
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        found = {
            **os.environ,
            "LEASEMQ_URL": self.url,
            "E2E_FOLDER": str(self.folder),
            "E2E_NAME": name,
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        }
        return found if hook is None else {**found, VARIABLE: hook.to_text()}

    def run(self, name: str, *command: str, hook: Hook | None = None) -> Process:
        """Start any process."""
        log = self.folder / f"{len(self.processes)}-{name}.log"
        process = Process(command, self.environment(name, hook), log)
        self.processes.append(process)
        return process

    def worker(
        self,
        name: str,
        *,
        concurrency: int = 1,
        lease_s: float = 1,
        drain_s: float = 10,
        hook: Hook | None = None,
        is_ready: bool = False,
    ) -> Process:
        """Start a worker by the command line; with `is_ready` return when it claims."""
        options = ["--concurrency", str(concurrency), "--lease", str(lease_s), "--drain", str(drain_s)]
        process = self.run(name, *COMMAND, "worker", APP, *options, "--name", name, hook=hook)
        if is_ready:
            until(lambda: "WorkerStarted" in process.output, f"worker {name} claims")
        return process

    def program(self, module: str, *arguments: str, name: str = "program") -> Process:
        """Start one of the programs in `apps/`."""
        return self.run(name, sys.executable, "-m", f"tests.end_to_end.apps.{module}", *arguments)

    def leasemq(self, *arguments: str) -> Any:
        """Run the command line with `--json` in a process of its own, and answer what it prints."""
        done = subprocess.run(
            [*COMMAND, *arguments, "--json", "--url", self.url],
            env=self.environment("cli"),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"leasemq {' '.join(arguments)}: {done.returncode}\n{done.stderr}"
        return json.loads(done.stdout)

    def job(self, id_: str) -> dict[str, Any]:
        """What `leasemq job` says."""
        found: dict[str, Any] = self.leasemq("job", id_)
        return found

    def enqueue(self, task: str, *arguments: Any, **options: Unpack[CallOptions]) -> Job[Any]:
        """Enqueue one job from the test's own process."""
        return task_of(self.app, task).options(**options).enqueue_sync(*arguments)

    def record(self, id_: str) -> JobRecord:
        """All that is stored about a job, read in the test's own process."""
        return self.app.call_sync(self.app.job(QUEUE, id_).record)

    def counts(self) -> Counts:
        """The queue's counts, read in the test's own process."""
        return self.app.call_sync(self.app.queue(QUEUE).counts)

    def events(self, id_: str) -> list[EventKind]:
        """What the queue's feed tells of a job, oldest first."""

        async def read() -> list[EventKind]:
            backend = open_backend(self.url)
            await backend.prepare()
            page = await backend.events(QUEUE, "", 1_000)
            await backend.close()
            return [event.kind for event in page.events if event.ref.id == id_]

        return asyncio.run(read())

    def wait_for_state(self, id_: str, state: State, within_s: float = PATIENCE_S) -> JobRecord:
        """Wait until a job is in that state, and answer its record."""
        until(lambda: self.record(id_).state is state, f"job {id_} is {state}", within_s)
        return self.record(id_)

    def wait_for_completed(self, count: int, within_s: float = PATIENCE_S) -> None:
        """Wait until so many jobs are completed."""
        until(lambda: self.counts().completed >= count, f"{count} jobs are completed", within_s)

    def wait_for(self, true: Callable[[], object], what: str, within_s: float = PATIENCE_S) -> None:
        """Wait until something holds."""
        until(lambda: bool(true()), what, within_s)

    def kill(self, process: Process) -> float:
        """SIGKILL a process, and answer when, by the ledger's clock."""
        at_s = self.now_s()
        process.kill()
        return at_s

    def now_s(self) -> float:
        """The ledgers' clock."""
        return time.monotonic()

    def open_gate(self, gate: str) -> None:
        """Let go the runs that wait for this gate."""
        (self.folder / gate).touch()

    def freeze_held(self, process: Process) -> None:
        """SIGSTOP a process that a hook holds; it sends its write when it is thawed."""
        self.freeze(process)
        (self.folder / f"struck-{GO_ON}").touch()

    def hook(self, write: str, job: str, fault: str, *, when: str = "before") -> Hook:
        """A fault around one write of one job, once in this test."""
        return Hook(write=write, job=job, when=when, fault=fault, marker=str(self.folder / "struck"))

    def freeze(self, process: Process) -> None:
        """SIGSTOP, at a moment when the process does not hold the file's write lock; a server has its own."""
        if self.backend_name != "sqlite":
            process.signal(signal.SIGSTOP)
            until(process.is_stopped, f"process {process.pid} is stopped")
            return

        def stopped_outside_a_write() -> bool:
            process.signal(signal.SIGSTOP)
            until(process.is_stopped, f"process {process.pid} is stopped")
            if self.is_writable():
                return True
            process.thaw()
            return False

        until(stopped_outside_a_write, f"process {process.pid} is frozen outside of a write")

    def is_writable(self) -> bool:
        """Whether somebody else could write to the file now."""
        with closing(sqlite3.connect(self.file, timeout=0.2, isolation_level=None)) as connection:
            try:
                connection.execute("begin immediate")
            except sqlite3.OperationalError:
                return False
            connection.execute("rollback")
            return True

    def close(self) -> None:
        """End every process that still runs, frozen ones too, and take the store away."""
        self.app.call_sync(self.app.close)
        for process in self.processes:
            if process.is_alive:
                process.kill()
        if self._served is not None:
            self._served.drop()
