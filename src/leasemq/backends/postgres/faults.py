"""PostgreSQL's errors as the package's own: which of them say that nothing happened.

Codes: https://www.postgresql.org/docs/current/errcodes-appendix.html
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import psycopg

from leasemq.errors import (
    BackendFull,
    BackendUnavailable,
    CorruptRecord,
    IndeterminateWrite,
    LeaseMQError,
    Unsupported,
)
from leasemq.protocol.names import mask_urls

REPEATS = 20  # of one request that the server aborted for another's sake

_ABORTED = frozenset({"40001", "40P01"})  # serialization failure, deadlock
_LOCK_TIMEOUT = "55P03"
_NOT_PREPARED = frozenset({"26000", "42P05"})  # a pooler gave us another session than the one we prepared in
_CACHED_PLAN = "0A000"
_NO_FUNCTION = "42883"
_READ_ONLY = "25006"
_CORRUPT = frozenset({"XX001", "XX002", "LM001"})  # the last is what our functions raise


# What a server that is there says to a newcomer. Its codes do not reach libpq's callers; said in another
# language, it is told as it is, without a remedy.
_SESSION_REFUSED = {
    ("FATAL:  database ", "no such database"): "create the database, or name another in the URL",
    ("FATAL:  role ", "no such user", " authentication failed", "no password supplied", "pg_hba.conf"): (
        "check the user and the password in the URL, and what pg_hba.conf lets in"
    ),
    ("does not support SSL", "certificate"): "check sslmode and the certificates that the URL names",
    ("too many",): "raise max_connections, or put a pooler in between",
}


class Remedy(StrEnum):
    """What to do about an error of one request."""

    REPEAT = "repeat"  # the server undid it for another's sake
    RECONNECT = "reconnect"  # then repeat: the session is not what we took it for
    INSTALL = "install"  # then repeat: the function is not there
    RAISE = "raise"


@dataclass(slots=True)
class Trial:
    """How one request fared so far. Owner: whoever carries it out."""

    place: str
    is_read: bool
    repeats: int = 0
    has_reconnected: bool = False
    has_installed: bool = False
    is_locked_out: bool = False  # the last try was undone because others held a lock for too long

    def remedy(self, error: psycopg.Error, *, is_broken: bool) -> Remedy:
        """Answer what to do next. `is_broken`: the connection is gone, so nobody knows what happened."""
        state = error.sqlstate
        self.is_locked_out = state == _LOCK_TIMEOUT and not is_broken
        if is_broken:
            return Remedy.RAISE
        if state in _ABORTED and self.repeats < REPEATS:
            self.repeats += 1
            return Remedy.REPEAT
        if (state in _NOT_PREPARED or _is_stale_plan(error)) and not self.has_reconnected:
            self.has_reconnected = True
            return Remedy.RECONNECT
        if state == _NO_FUNCTION and not self.has_installed:
            self.has_installed = True
            return Remedy.INSTALL
        return Remedy.RAISE

    def lost(self, error: psycopg.Error) -> LeaseMQError:
        """Answer the error of a request that was sent on a connection that is gone."""
        return self._in_doubt(line(error))

    def unanswered(self, waited_ms: int) -> LeaseMQError:
        """Answer the error of a request that was given up after so long, and its connection with it."""
        return self._in_doubt(f"no answer within {waited_ms} ms")

    def _in_doubt(self, what: str) -> LeaseMQError:
        if self.is_read:
            return BackendUnavailable(f"the connection to {self.place} was lost ({what}); try again")
        return IndeterminateWrite(
            f"the answer of {self.place} was lost ({what}): the write may have been applied; "
            "repeat it with the same id"
        )


def unreachable(error: Exception, place: str) -> LeaseMQError:
    """Answer the error of a connection that could not be made: nothing was sent."""
    told = str(error)
    for words, remedy in _SESSION_REFUSED.items():
        if any(word in told for word in words):
            return BackendUnavailable(
                f"{place} refused the session; nothing was sent: {remedy} ({line(error)})"
            )
    return BackendUnavailable(f"{place} cannot be reached; nothing was sent ({line(error)})")


def must_reconnect(error: psycopg.Error) -> bool:
    """Whether another server may do what this one refuses: the one that was the primary."""
    return error.sqlstate == _READ_ONLY


def refused(error: psycopg.Error, place: str) -> LeaseMQError:
    """Answer the error of a request that the server refused and undid."""
    state = error.sqlstate or ""
    match state:
        case "53100":
            return BackendFull(f"no space left for {place}: free some, then try again ({line(error)})")
        case "25006":
            return BackendUnavailable(f"{place} is read-only for now; nothing was written ({line(error)})")
        case "55P03":
            return BackendUnavailable(
                f"a lock of {place} stayed taken; nothing was written: is another transaction left open? "
                f"({line(error)})"
            )
        case "57014":
            return BackendUnavailable(f"{place} took too long; nothing was written ({line(error)})")
        case "3F000" | "42P01" | "42883":
            return Unsupported(
                f"{place} holds no LeaseMQ store here: await backend.prepare() first ({line(error)})"
            )
        case "42501":
            return BackendUnavailable(
                f"the role may not do this in {place}; nothing was written: grant what the documentation "
                f"lists for it ({line(error)})"
            )
    if state in _CORRUPT or state.startswith("22"):
        return CorruptRecord(f"a record in {place} cannot be read ({line(error)})")
    if state in _ABORTED:
        return BackendUnavailable(
            f"{place} undid this {REPEATS + 1} times for other transactions' sake; nothing was written "
            f"({line(error)})"
        )
    return BackendUnavailable(f"{place} refused a statement; nothing was written ({state}: {line(error)})")


def line(error: Exception) -> str:
    """Answer what the driver or server says in one line, without a password or a function's text."""
    told = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return mask_urls(" ".join((told or str(error)).split())) or type(error).__name__


def _is_stale_plan(error: psycopg.Error) -> bool:
    return error.sqlstate == _CACHED_PLAN and "cached plan" in str(error)
