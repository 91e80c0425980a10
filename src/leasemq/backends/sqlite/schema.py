"""The store's version and how it gets there: numbered scripts, each applied once, by whoever comes first."""

from __future__ import annotations

import errno
import os
import secrets
import sqlite3
import stat
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from leasemq.backends.sqlite.connection import WritingConnection
from leasemq.backends.sqlite.faults import is_busy, is_foreign, translated
from leasemq.backends.sqlite.settings import Settings
from leasemq.backends.sqlite.statements import script, statement
from leasemq.clock import boot_ms
from leasemq.errors import SchemaTooNew, Unsupported

MIGRATIONS = ("schema_1", "schema_2")  # the version is how many of them were applied
OLDEST_SQLITE = (3, 35, 0)  # RETURNING

_META_CREATE = statement("meta_create")
_META_READ = statement("meta_read")
_META_WRITE = statement("meta_write")
_STORE_ADD = statement("store_add")
_STORE_READ = statement("store_read")

_PAUSE_SECONDS = 0.01


def check_library() -> None:
    """Refuse an SQLite that cannot do what is needed. Raises: Unsupported."""
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise Unsupported(f"SQLite {sqlite3.sqlite_version} is too old: {oldest} or newer is needed")


def holds_store(path: Path) -> bool:
    """Whether there is a store in the file, which is only read and not created."""
    try:
        # Not mode=ro: that would leave a log and an index beside a file in WAL mode.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as connection:
            connection.execute("PRAGMA query_only = ON")
            return _META_READ.row(connection) is not None
    except sqlite3.Error as error:
        # Where it cannot be told now (the file is locked), whoever opens it will be told why.
        return not is_foreign(error)


def prepared(settings: Settings) -> tuple[Settings, str]:
    """Create or upgrade the store; answers the settings with its full path, and the namespace's id.

    Safe from many processes at once.

    Raises: SchemaTooNew, Unsupported, BackendUnavailable.
    """
    path = os.path.abspath(settings.path)  # whatever chdir follows
    settings = replace(settings, path=path, is_prepared=False)
    _check_place(settings.path)
    connection = WritingConnection(settings, settings.sync)
    try:
        with connection.at_work:
            return replace(settings, is_prepared=True), _prepared(connection, settings)
    except sqlite3.Error as error:
        raise translated(error, settings.path) from error
    finally:
        connection.give_up()


def _check_place(path: str) -> None:
    """Refuse what can never be a database, which SQLite answers as if the disk had failed."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        if error.errno in (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR):
            raise Unsupported(f"{path!r} can be no file: {error.strerror}; name another one") from error
        return  # there is none yet, or SQLite says better what is wrong
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise Unsupported(f"{path!r} is {kind}, not a file: name a file, as in sqlite:///jobs.db")


def _prepared(connection: WritingConnection, settings: Settings) -> str:
    until_ms = boot_ms() + settings.busy_timeout_ms
    _choose_wal(connection.raw, until_ms)
    store_id = _found(connection.raw, settings.namespace)
    if store_id is not None:
        return store_id
    connection.begin(until_ms)
    _upgrade(connection.raw, settings.path)
    _STORE_ADD.run(connection.raw, settings.namespace, secrets.token_hex(16))
    row = _STORE_READ.row(connection.raw, settings.namespace)
    assert row is not None
    connection.commit()
    return str(row[0])


def _found(connection: sqlite3.Connection, namespace: str) -> str | None:
    """Answer the id of a store that needs nothing written, so that who looks waits for no lock; else None."""
    try:
        version = _META_READ.row(connection)
        if version is None or version[0] != len(MIGRATIONS):
            return None
        row = _STORE_READ.row(connection, namespace)
    except sqlite3.Error:  # there is no store yet, or a write will tell what is wrong
        return None
    return None if row is None else str(row[0])


def _choose_wal(connection: sqlite3.Connection, until_ms: int) -> None:
    """Switch the file to a write-ahead log, which it remembers.

    SQLite does not wait for the lock that this needs (https://sqlite.org/wal.html#activating_and_configuring_wal_mode).
    """
    pause = threading.Event()  # never set: waited on instead of sleeping
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if not is_busy(error) or boot_ms() >= until_ms:
                raise
            pause.wait(_PAUSE_SECONDS)
            continue
        if mode != "wal":
            raise Unsupported(
                f"SQLite keeps journal mode {mode!r}: put the file where WAL works, on a local disk"
            )
        return


def _upgrade(connection: sqlite3.Connection, path: str) -> None:
    _META_CREATE.run(connection)
    row = _META_READ.row(connection)
    version = 0 if row is None else row[0]
    if version > len(MIGRATIONS):
        raise SchemaTooNew(
            f"{path!r} has schema version {version}; upgrade LeaseMQ: this release knows {len(MIGRATIONS)}"
        )
    for migration in MIGRATIONS[version:]:
        for part in script(migration):
            connection.execute(part)
    if version < len(MIGRATIONS):
        _META_WRITE.run(connection, len(MIGRATIONS))
