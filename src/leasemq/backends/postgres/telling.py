"""What a notification says, as a value. `push.sql` writes it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from leasemq.protocol.model import Ref

_Jobs = list[tuple[str, int]]
_Payload = tuple[str, bool, bool, _Jobs | None, _Jobs | None]
_decoder = msgspec.json.Decoder(_Payload)


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What happened in one queue."""

    queue: str
    woken: bool = False
    changed: bool = False
    cancels: frozenset[Ref] = frozenset()
    ended: frozenset[Ref] | None = frozenset()  # None: any job of the queue may have ended


def everything(queue: str) -> Told:
    """Answer that anything may have happened in a queue."""
    return Told(queue=queue, woken=True, changed=True, ended=None)


def read(payload: str) -> Told | None:
    """Answer what a payload says; None if it is not one of ours."""
    try:
        queue, woken, changed, cancels, ended = _decoder.decode(payload)
    except msgspec.DecodeError:
        return None
    return Told(
        queue=queue,
        woken=woken,
        changed=changed,
        cancels=_refs(queue, cancels or []),
        ended=None if ended is None else _refs(queue, ended),
    )


def _refs(queue: str, jobs: _Jobs) -> frozenset[Ref]:
    return frozenset(Ref(queue=queue, id=id_, generation=generation) for id_, generation in jobs)
