"""What lies in Redis and belongs to no job: see the notes on top of lua/shared/records.lua and moves.lua."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import redis

PARTS = frozenset((b"r", b"x", b"h", b"f", b"g", b"t", b"m", b"p", b"d"))  # of a job, under its id
ENTRIES = (b"due", b"leases", b"kept")  # lanes whose members end with the number of a job in six bytes
NUMBERS = (b"blocked", b"alone")  # lanes of numbers


def orphans(client: redis.Redis, keys: Sequence[bytes]) -> list[str]:
    """Each in a line. `keys` are all of one namespace on one server."""
    prefixes = {key[: key.index(b"}:") + 2] for key in keys if b"}:" in key}
    return [
        told
        for prefix in sorted(prefixes)
        for told in _of_queue(client, prefix, [key[len(prefix) :] for key in keys if key.startswith(prefix)])
    ]


def _of_queue(client: redis.Redis, prefix: bytes, names: Sequence[bytes]) -> Iterator[str]:
    ids = {name[2:] for name in names if name.startswith(b"j:")}
    parts = (name.partition(b":") for name in names)
    yield from (f"{part!r} of {id_!r}" for part, _, id_ in parts if part in PARTS and id_ not in ids)
    known = _numbers(client, prefix, names)
    yield from (f"number {number} of {id_!r}" for number, id_ in known.items() if id_ not in ids)
    listed = _listed(client, prefix, names)
    yield from (f"number {number} in {lane!r}" for lane, number in listed if number not in known)
    holds = _hash(client, prefix + b"holds").items()
    unbounded = ((key, hold[11:]) for key, hold in holds if not int.from_bytes(hold[1:7]))
    yield from (f"key {key!r} of {id_!r}" for key, id_ in unbounded if id_ not in ids)
    aliases = _hash(client, prefix + b"aliases").items()
    yield from (f"alias {alias!r} of {id_!r}" for alias, id_ in aliases if id_ not in ids)


def _numbers(client: redis.Redis, prefix: bytes, names: Sequence[bytes]) -> dict[int, bytes]:
    """The id of each number of acceptance."""
    return {
        int(name[2:]) * 64 + int(place): id_
        for name in names
        if name.startswith(b"n:")
        for place, id_ in _hash(client, prefix + name).items()
    }


def _listed(client: redis.Redis, prefix: bytes, names: Sequence[bytes]) -> Iterator[tuple[bytes, int]]:
    """Every number that a lane has."""
    for name in names:
        if name in ENTRIES or name.startswith(b"ended:") or name == b"ttl":
            for member in client.zrange(prefix + name, 0, -1):
                yield name, int.from_bytes(cast(bytes, member)[-6:])
        elif name in NUMBERS or name[:2] in (b"w:", b"s:"):
            for member in client.zrange(prefix + name, 0, -1):
                yield name, int(cast(bytes, member))


def _hash(client: redis.Redis, key: bytes) -> dict[bytes, bytes]:
    return cast(dict[bytes, bytes], client.hgetall(key))
