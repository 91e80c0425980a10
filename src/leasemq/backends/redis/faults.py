"""Redis's errors as the package's own: which of them say that nothing happened.

An error that the server answers has a code as its first word. Scripts begin with `#!lua`, so that whatever
the server checks is checked before their first line
(https://redis.io/docs/latest/develop/programmability/eval-intro/#eval-flags).
"""

from __future__ import annotations

from redis import exceptions as driver

from leasemq.errors import (
    BackendFull,
    BackendUnavailable,
    CorruptRecord,
    IndeterminateWrite,
    LeaseMQError,
    Unsupported,
)
from leasemq.protocol.names import mask_urls, shown

CORRUPT = "CORRUPT"  # the code of a script's own error when it met a record that it cannot read

_SHOWN = 300
_OUT_OF_SPACE = "No space left on device"
_IN_A_SCRIPT = "@user_script"
_MOVING = frozenset({"ASK", "TRYAGAIN"})
_OF_THE_NODE = {  # none of these was begun
    "LOADING": "is reading its data in, and answers again when that is done",
    "READONLY": "is a replica, and takes no writes until a primary is found",
    "MASTERDOWN": "is a replica without its primary",
    "CLUSTERDOWN": "belongs to a Cluster that is not whole",
    "NOREPLICAS": "has fewer good replicas than min-replicas-to-write asks for",
    "BUSY": "is busy with somebody's script; SCRIPT KILL ends one that has not written yet",
    "NOSCRIPT": "has forgotten its scripts again and again",
}
_OF_THE_USER = {
    "NOAUTH": "wants a password: put it in the URL, percent-encoded",
    "WRONGPASS": "refuses this user or password",
    "NOPERM": "does not let this user do that: give it the commands and keys that docs/redis.md lists",
}


def text_of(error: BaseException) -> str:
    """Answer a driver's error as the server wrote it, code first, as one line without secrets."""
    code = getattr(error, "status_code", None)
    said = " ".join(str(error).split())
    return shown(mask_urls(f"{code} {said}" if code else said), _SHOWN)


def code_of(error: BaseException) -> str:
    """Answer the first word of what the server said."""
    return text_of(error).partition(" ")[0]


def is_forbidden(error: BaseException) -> bool:
    """Whether the server does not let us ask that, or does not know it (some rename CONFIG away)."""
    return code_of(error) == "NOPERM" or _is_unknown(text_of(error))


def refused(error: driver.RedisError, what: str, place: str, *, is_read: bool) -> LeaseMQError:
    """Answer the error to raise `from` one that the server answered to `what`."""
    said = text_of(error)
    code, _, rest = said.partition(" ")
    if code == CORRUPT:
        return CorruptRecord(f"{what} met a record that it cannot read: {rest.partition(' script: ')[0]}")
    if code == "WRONGTYPE" and (is_read or _IN_A_SCRIPT not in said):
        return CorruptRecord(f"{what} met a key of another type at {place}; is it another's? ({said})")
    if _IN_A_SCRIPT in said and not is_read:
        return IndeterminateWrite(f"{what} failed half-way at {place}; what it wrote remains ({said})")
    return _not_begun(code, said, what, place)


def unreachable(error: BaseException, place: str) -> BackendUnavailable:
    """Answer the error for those whose request was never sent, because there was no connection to be had."""
    why = text_of(error) or type(error).__name__
    if remedy := _OF_THE_USER.get(code_of(error)):
        return BackendUnavailable(f"{place} {remedy} ({why})")
    return BackendUnavailable(f"{place} cannot be reached ({why}): is the server there? nothing was sent")


def broken_off(why: str, what: str, place: str, *, is_read: bool) -> LeaseMQError:
    """Answer the error for a request that was sent and whose answer will never come."""
    if is_read:
        return BackendUnavailable(f"the connection to {place} was lost before {what} was answered ({why})")
    return IndeterminateWrite(
        f"the connection to {place} was lost before {what} was answered ({why}): it may have been done"
    )


def _not_begun(code: str, said: str, what: str, place: str) -> LeaseMQError:
    if code in _MOVING:
        return BackendUnavailable(f"{place} is moving this slot to another node; {what} was not begun")
    if code == "OOM":
        return BackendFull(f"{place} is out of memory; {what} was not begun: free some, or raise maxmemory")
    if code == "MISCONF":
        full = BackendFull if _OUT_OF_SPACE in said else BackendUnavailable
        return full(f"{place} cannot write to its disk; {what} was not begun ({said})")
    if code in _OF_THE_NODE:
        return BackendUnavailable(f"{place} {_OF_THE_NODE[code]}; {what} was not begun")
    if code in _OF_THE_USER:
        return BackendUnavailable(f"{place} {_OF_THE_USER[code]}; {what} was not begun ({said})")
    if _is_unknown(said):
        return Unsupported(f"{place} does not know what {what} needs: is it Redis or Valkey 7? ({said})")
    return BackendUnavailable(f"{place} refused {what}: {said}")


def _is_unknown(said: str) -> bool:
    return "unknown command" in said or "nknown subcommand" in said
