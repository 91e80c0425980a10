"""SQLite's errors as the package's own: which of them say that nothing happened.

Result codes: https://sqlite.org/rescode.html
"""

from __future__ import annotations

import sqlite3

from leasemq.errors import (
    BackendFull,
    BackendUnavailable,
    CorruptRecord,
    IndeterminateWrite,
    LeaseMQError,
    Unsupported,
)

_PRIMARY = 0xFF  # an extended code carries its primary code in the low byte
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})

_OF_THE_FILE = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN}
)


def is_of_the_file(error: sqlite3.Error) -> bool:
    """Whether it says nothing of the request: a connection that met it may never be rid of it."""
    return _primary(error) in _OF_THE_FILE


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else has the database's lock for the moment."""
    return _primary(error) in _BUSY


def is_foreign(error: sqlite3.Error) -> bool:
    """Whether the file is another program's: a database without our tables, or none at all."""
    return "no such table" in str(error) or _primary(error) == sqlite3.SQLITE_NOTADB


def translated(error: sqlite3.Error, path: str, *, committing: bool = False) -> LeaseMQError:
    """Answer the error to raise `from` this one. `committing`: it came from COMMIT."""
    match _primary(error):
        case sqlite3.SQLITE_FULL:
            # WAL: a transaction exists from its last frame on, and the frame that did not fit is missing.
            return BackendFull(f"no space left for {path!r}: free some, then try again ({error})")
        case sqlite3.SQLITE_IOERR if committing:
            # The last frame may be in the file although its sync failed: a recovery may find it there.
            return IndeterminateWrite(f"the disk failed while {path!r} was being committed ({error})")
        case sqlite3.SQLITE_IOERR:
            return BackendUnavailable(f"the disk under {path!r} failed; nothing was written ({error})")
        case sqlite3.SQLITE_READONLY:
            return BackendUnavailable(f"{path!r} is read-only: make file and folder writable ({error})")
        case sqlite3.SQLITE_CANTOPEN:
            return BackendUnavailable(f"{path!r} cannot be opened: is it there, in its folder? ({error})")
        case sqlite3.SQLITE_NOTADB:
            return Unsupported(f"{path!r} is not an SQLite database: name another file ({error})")
        case sqlite3.SQLITE_CORRUPT:
            return CorruptRecord(f"the database {path!r} is damaged: restore it from a copy ({error})")
        case code if code in _BUSY:
            return BackendUnavailable(f"{path!r} stayed locked; nothing was written ({error})")
    if "no such table" in str(error):
        return Unsupported(f"{path!r} holds no LeaseMQ store: await backend.prepare() first ({error})")
    return BackendUnavailable(f"SQLite refused a statement on {path!r}; nothing was written ({error})")


def _primary(error: sqlite3.Error) -> int:
    # Errors that the Python module raises by itself carry no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY
