"""Looks behind Redis's back: whether every key of a namespace is what the stored jobs say that it must be."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import redis

from leasemq.backends.redis import layout
from leasemq.backends.redis.parsing import Run, head_of, run_of

PARTS = frozenset("rxhfgtmpd")  # of a job, beside its record
OF_A_QUEUE = frozenset(
    {"book", "numbers", "ready", "suspects", "due", "leases", "blocked", "kept", "ttl", "alone", "terms",
     "term_numbers", "holds", "hold_ends", "aliases", "outbox", "events", "slips", "interest"}
)  # fmt: skip
LANES = frozenset({"w", "s", "ended", "due", "leases", "kept", "ttl", "blocked", "alone"})
TERMINAL = 5  # states from here on are terminal
RANK = 2**45
Lanes = Mapping[str, dict[bytes, float]]


@dataclass(slots=True)
class Head:
    """What a record's first bytes say. Owned by the look that read it."""

    id: bytes
    state: int
    flags: int
    priority: int
    place: int
    due: int
    expires: int
    number: int
    generation: int
    is_plain: bool
    run: Run | None = None

    @property
    def entry(self) -> bytes:
        """How the job lies in lanes where its place decides."""
        return self.place.to_bytes(6) + self.number.to_bytes(6)

    @property
    def bucket(self) -> str:
        """The key of its bucket of waiting jobs."""
        lane = "s" if self.flags & layout.SUSPECT else "w"
        return f"{lane}:{(200 - self.priority) * RANK + self.place // 64}"


@dataclass(slots=True)
class Queue:
    """All keys of one queue. Owned by the look that read it."""

    keys: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, dict[bytes, bytes]] = field(default_factory=lambda: defaultdict(dict))


def misfits(client: redis.Redis, namespace: str) -> list[str]:
    """Answer a line for each key, entry and count that does not fit the jobs of its queue."""
    queues: dict[bytes, Queue] = defaultdict(Queue)
    for key in client.scan_iter(match=f"{namespace}:*", count=1_000):
        tag, _, rest = key.partition(b"{")[2].partition(b"}:")
        if not tag.startswith(b"%/"):
            _file(queues[tag], key, rest)
    return [f"{tag.decode()}: {line}" for tag, queue in queues.items() for line in _look(client, queue)]


def _file(queue: Queue, key: bytes, rest: bytes) -> None:
    kind, _, id_ = rest.partition(b":")
    if kind.decode("latin-1") in PARTS | {"j", "v"} and id_:
        queue.parts[kind.decode()][id_] = key
    else:
        queue.keys[rest.decode("latin-1")] = key


def _look(client: redis.Redis, queue: Queue) -> Iterator[str]:
    heads = {id_: _head(client, id_, key, queue) for id_, key in queue.parts["j"].items()}
    for part in sorted(PARTS):
        for id_ in queue.parts[part].keys() - heads.keys():
            yield f"{part}: of {id_!r} belongs to no job"
    wanted = _wanted(list(heads.values()))
    yield from _compared(client, queue, wanted)
    yield from _claims(client, queue, list(heads.values()))
    yield from _counted(client, queue, list(heads.values()))
    yield from _held(client, queue, heads)


def _head(client: redis.Redis, id_: bytes, key: bytes, queue: Queue) -> Head:
    raw = client.get(key)
    run_raw = client.get(queue.parts["r"][id_]) if id_ in queue.parts["r"] else b""
    read = head_of(raw, run_raw)
    is_plain = raw[0] == layout.PLAIN
    at = 15 if is_plain else 30
    head = Head(
        id_, layout.STATES.index(read.state) + 1, read.flags, read.priority, read.place, read.due_ms,
        read.expires_ms, int.from_bytes(raw[at : at + 5]), read.generation, is_plain,
    )  # fmt: skip
    if head.flags & layout.RUNS:
        head.run = run_of(run_raw)
    return head


def _wanted(heads: Sequence[Head]) -> Lanes:
    """What must lie in each sorted set; sets have scores of 0."""
    lanes: dict[str, dict[bytes, float]] = defaultdict(dict)
    for head in heads:
        for lane, member, score in _lanes_of(head):
            lanes[lane][member] = score
    for bucket in [name for name in lanes if name[:2] in ("w:", "s:")]:
        lanes["ready" if bucket[0] == "w" else "suspects"][bucket[2:].encode()] = float(bucket[2:])
    for bucket in {head.number // 64 for head in heads}:
        lanes["numbers"][str(bucket).encode()] = bucket
    return lanes


def _lanes_of(head: Head) -> Iterator[tuple[str, bytes, float]]:
    text, packed = str(head.number).encode(), head.number.to_bytes(6)
    match layout.STATES[head.state - 1].value:
        case "waiting":
            yield head.bucket, text, head.place % 64
        case "scheduled":
            yield "due", head.entry, head.due
        case "blocked":
            yield "blocked", text, head.number
        case "active":
            assert head.run is not None
            yield "leases", head.entry, head.run.lease_until_ms
            if head.flags & layout.SUSPECT:
                yield "alone", text, head.number
        case _:
            assert head.run is not None
            yield "kept", head.entry, _prune_ms(head.run)
            yield f"ended:{head.state}", packed, head.run.ended_ms
    if head.expires and head.state != layout.STATES.index(layout.State.ACTIVE) + 1 and head.state < TERMINAL:
        yield "ttl", packed, head.expires


def _prune_ms(run: Run) -> int:
    if run.result is None or not run.result_until_ms:
        return run.keep_until_ms
    return min(run.result_until_ms, run.keep_until_ms)


def _compared(client: redis.Redis, queue: Queue, wanted: Lanes) -> Iterator[str]:
    found: dict[str, dict[bytes, float]] = {}
    ids: dict[int, bytes] = {}
    for name, key in queue.keys.items():
        kind = name.partition(":")[0]
        if kind == "n":
            bucket = int(name[2:])
            ids |= {bucket * 64 + int(at): id_ for at, id_ in client.hgetall(key).items()}
        elif kind in wanted or kind in (
            "w",
            "s",
            "ended",
            "due",
            "leases",
            "kept",
            "ttl",
            "blocked",
            "alone",
        ):
            found[name] = dict(client.zrange(key, 0, -1, withscores=True))
        elif name not in OF_A_QUEUE and kind not in ("schedule", "c", "o"):
            yield f"{name} is no key of a queue"
    for name in sorted(wanted.keys() | found.keys()):
        if found.get(name, {}) != wanted.get(name, {}):
            yield f"{name} has {found.get(name)} instead of {wanted.get(name)}"
    numbers = {head_number: id_ for id_, head_number in _numbers(client, queue)}
    if ids != numbers:
        yield f"numbers name {ids} instead of {numbers}"


def _claims(client: redis.Redis, queue: Queue, heads: Sequence[Head]) -> Iterator[str]:
    """Each claim counts its active jobs, and names at least these."""
    wanted: dict[bytes, set[bytes]] = defaultdict(set)
    owners: dict[bytes, set[bytes]] = defaultdict(set)
    for head in heads:
        if head.state == layout.STATES.index(layout.State.ACTIVE) + 1 and head.run is not None:
            nonce = layout.short(head.run.nonce)
            wanted[nonce].add(head.entry)
            owners[layout.short(head.run.incarnation)].add(nonce)
    for name, key in queue.keys.items():
        if name.startswith("o:"):
            nonces = set(client.smembers(key))
            if nonces != owners.pop(key.partition(b"}:o:")[2], set()):
                yield f"{name} has {nonces}"
        elif name.startswith("c:"):
            numbers, left = client.hget(key, "n") or b"", int(client.hget(key, "l") or -1)
            active = wanted.pop(key.partition(b"}:c:")[2], set())
            named = {numbers[at : at + 12] for at in range(0, len(numbers), 12)}
            if left != len(active) or not active <= named:
                yield f"{name} has {left} of {named} instead of {active}"
    yield from (f"claim {nonce!r} is nowhere" for nonce in wanted)
    yield from (f"the claims of {incarnation!r} are nowhere" for incarnation in owners)


def _numbers(client: redis.Redis, queue: Queue) -> Iterator[tuple[bytes, int]]:
    for id_, key in queue.parts["j"].items():
        raw = client.getrange(key, 0, 34).ljust(35, b"\x00")
        yield id_, int.from_bytes(raw[15:20] if raw[0] == layout.PLAIN else raw[30:35])


def _counted(client: redis.Redis, queue: Queue, heads: Sequence[Head]) -> Iterator[str]:
    if "book" not in queue.keys:
        return
    book = {name.decode(): value for name, value in client.hgetall(queue.keys["book"]).items()}
    for number, state in enumerate(layout.STATES, start=1):
        stored = sum(head.state == number for head in heads)
        if int(book.get(state.value, 0)) != stored:
            yield f"{state.value} is {book.get(state.value)} instead of {stored}"
    if int(book.get("accepted", 0)) != len(heads) + int(book.get("removed", 0)):
        yield f"accepted is {book.get('accepted')} with {len(heads)} stored, {book.get('removed')} removed"
    slips = sum(client.hlen(key) for key in queue.parts["v"].values())
    if int(book.get("slips", 0)) != slips or (client.zcard(queue.keys["slips"]) if slips else 0) != slips:
        yield f"slips is {book.get('slips')} instead of {slips}"


def _held(client: redis.Redis, queue: Queue, heads: Mapping[bytes, Head]) -> Iterator[str]:
    holds = client.hgetall(queue.keys["holds"]) if "holds" in queue.keys else {}
    for key, raw in holds.items():
        _, until, generation = raw[0], int.from_bytes(raw[1:7]), *struct.unpack(">I", raw[7:11])
        head = heads.get(raw[11:])
        if not until and (head is None or head.generation != generation):
            yield f"key {key!r} is held by {raw[11:]!r}, which is gone"
    aliases = client.hgetall(queue.keys["aliases"]) if "aliases" in queue.keys else {}
    for alias, id_ in aliases.items():
        if id_ not in heads:
            yield f"alias {alias!r} names {id_!r}, which is gone"
