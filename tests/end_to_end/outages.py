"""Ways to make the file of a test unusable from outside, and usable again."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from tests.end_to_end.place import Place, Process
from tests.end_to_end.waiting import until

SMALL_DISK = "8m"
CHUNK_BYTES = 64 * 1024
UNHARMED_BYTES = 48 * 1024  # more than the ledgers and logs of a test
VERSION_OF_NO_RELEASE, VERSION_OF_WAL = 3, 2

# In a process of its own: closing the file would drop the locks that SQLite holds on it in this one.
# Byte 18 is the write version: https://sqlite.org/fileformat2.html#file_format_version_numbers
_MARK = "import os, sys; os.pwrite(os.open(sys.argv[1], os.O_RDWR), bytes([int(sys.argv[2])]), 18)"


@contextmanager
def locked(place: Place, worker: Process) -> Iterator[None]:
    """Hold the write lock in a transaction from outside."""
    with closing(_outside(place.file)) as outside:
        outside.execute("begin immediate")
        yield
        outside.execute("rollback")


@contextmanager
def read_only(place: Place, worker: Process) -> Iterator[None]:
    """Mark the file as one that SQLite may read and must not write."""
    with marked_read_only(place.file):
        yield


@contextmanager
def full(place: Place, worker: Process) -> Iterator[None]:
    """Fill the file's disk; where it could not be given a small one, let no file of the worker grow."""
    if not place.file.parent.is_mount():
        with failing(place, worker):
            yield
        return
    filler = place.file.parent / "filler"
    with filler.open("wb", buffering=0) as out, suppress(OSError):
        while True:
            out.write(bytes(CHUNK_BYTES))
    yield
    filler.unlink()


@contextmanager
def failing(place: Place, worker: Process) -> Iterator[None]:
    """Have the kernel refuse what the worker writes where the file's log ends: the disk fails."""
    log = place.file.with_name(f"{place.file.name}-wal")
    until(lambda: log.stat().st_size > UNHARMED_BYTES, "the file's log is longer than any other file")
    soft, hard = resource.prlimit(worker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (UNHARMED_BYTES, hard))
    yield
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A folder on a small disk of its own if this user may mount one; else any folder."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "tmpfs", str(folder)]
    is_mounted = (
        os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )
    try:
        yield folder
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def marked_read_only(file: Path) -> Iterator[None]:
    """Have SQLite take a file for one that it must not write.

    Permissions would not do: they hold for nobody who has the file open, and never for root.
    """
    with closing(_outside(file)) as outside:
        outside.execute("create table if not exists outsiders (seen integer)")
    until(lambda: _is_marked_read_only(file), "the file is read-only for everybody")
    yield
    _mark(file, VERSION_OF_WAL)


def _outside(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout=10, isolation_level=None)


def _is_marked_read_only(file: Path) -> bool:
    """Mark it. Not so if somebody wrote page 1 to the log meanwhile, from where it is read first."""
    with closing(_outside(file)) as outside:
        outside.execute("pragma wal_checkpoint(truncate)")
        _mark(file, VERSION_OF_NO_RELEASE)
        # Whoever has page 1 in memory reads it anew after a commit: this one, or another's that came before.
        with suppress(sqlite3.OperationalError):
            outside.execute("insert into outsiders values (1)")
    with closing(_outside(file)) as newcomer:
        try:
            newcomer.execute("insert into outsiders values (2)")
        except sqlite3.OperationalError as error:
            return error.sqlite_errorname == "SQLITE_READONLY"
    return False


def _mark(file: Path, version: int) -> None:
    subprocess.run([sys.executable, "-c", _MARK, str(file), str(version)], check=True)
