"""Draws random scripts: one seed, one script, in which the steps of a job's life come often."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TypeVar

from leasemq.operations import ANY_STATE
from leasemq.protocol.insight import RECORD_LIMIT, Filter
from leasemq.protocol.model import (
    DAY_MS,
    DEAD,
    NOT_STARTED,
    TERMINAL,
    Keep,
    NewJob,
    NoteKind,
    OnParentFailure,
    Parent,
    State,
    Unique,
    UniqueMode,
    UniqueUntil,
)
from leasemq.testing.player import CROWD, HAPPENINGS, IDS, QUEUES, SCHEDULES, WORKERS, Call

T = TypeVar("T")

LENGTHS = (40, 40, 40, 40, 40, 150)  # some faults need a long history
HOUR_MS = 3_600_000
STEPS_MS = (1, 50, 50, 150, 150, 150, 1_500, 1_500, 1_500, HOUR_MS, -HOUR_MS, 8 * DAY_MS)
SHORT = Keep(result_ms=50, record_ms=100, dead_ms=200)
NOTHING = Keep(result_ms=0, record_ms=0, dead_ms=0)
LATE_RESULT = Keep(result_ms=150, record_ms=50, dead_ms=50)
TWISTS = ("number", "nonce", "generation", "unknown job", "repeated", "repeated", "repeated")
LIMITS = (1, 2, 3, 100, 1, 2, 3, 100, 0)


def script(seed: int) -> list[Call]:
    """Draw the script of a seed; the same on every machine."""
    dice = _Dice(seed)
    return [_call(dice, CALLS) for _ in range(dice.one(LENGTHS))]


def crowd(seed: int) -> list[Call]:
    """Draw a script in which many jobs, most of them plain, move together: there are short ways for these."""
    dice = _Dice(seed)
    return [_call(dice, _CROWDED) for _ in range(60)]


def _call(dice: _Dice, calls: Mapping[str, Mapping[str, Draw]]) -> Call:
    name = dice.one(_DRAWN)
    return Call(name, tuple((argument, draw(dice)) for argument, draw in calls[name].items()))


class _Dice:
    """Random choices in the words that a script needs. Owned by one drawing."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)  # noqa: S311  scripts are to be repeated, not to be secret

    def one(self, options: Sequence[T]) -> T:
        return options[int(self._random.random() * len(options))]

    def chance(self, of: float) -> bool:
        return self._random.random() < of

    def some(self, draw: Callable[[_Dice], T], most: int, least: int = 1) -> tuple[T, ...]:
        return tuple(draw(self) for _ in range(least + int(self._random.random() * (most - least + 1))))


Draw = Callable[[_Dice], object]


def _of(*options: object) -> Draw:
    return lambda dice: dice.one(options)


def _flag(dice: _Dice) -> bool:
    return dice.chance(0.5)


def _rarely(dice: _Dice) -> bool:
    return dice.chance(0.2)


def _queue(dice: _Dice) -> str:
    return QUEUES[dice.chance(0.2)]


def _id(dice: _Dice) -> str:
    return dice.one(IDS)


def _ids(dice: _Dice) -> tuple[str, ...]:
    return dice.some(lambda dice: "nobody" if dice.chance(0.05) else _id(dice), 3)


def _which(dice: _Dice) -> int:
    """How long ago a lease was given; mostly the newest ones."""
    return dice.one((0, 0, 0, 1, 1, 2, 3, 5))


def _twist(dice: _Dice) -> str:
    return dice.one(TWISTS) if dice.chance(0.25) else ""


def _policy(dice: _Dice) -> OnParentFailure:
    return dice.one(tuple(OnParentFailure))


def _settled(dice: _Dice) -> tuple[int, str, str, bool]:
    return _which(dice), dice.one(tuple(HAPPENINGS)), _twist(dice), _rarely(dice)


def _parent(dice: _Dice) -> Parent:
    return Parent(queue=_queue(dice), id=_id(dice), on_failure=_policy(dice))


def _unique(dice: _Dice) -> Unique:
    mode = dice.one(tuple(UniqueMode))
    needs_window = mode in (UniqueMode.DEBOUNCE, UniqueMode.THROTTLE)
    return Unique(
        key=dice.one(("k", "k", "l")),
        mode=mode,
        until=dice.one(tuple(UniqueUntil)),
        window_ms=dice.one((100, 1_000)) if needs_window or _rarely(dice) else None,
    )


def _job(dice: _Dice) -> NewJob:
    return NewJob(
        id=_id(dice),
        task=dice.one(("t", "u")),
        payload=dice.one((b"", b"x", b"\x00\xff")),
        priority=dice.one((0, 0, 0, 1, -1)),
        delay_ms=dice.one((0, 0, 0, 0, 50, 150)),
        ttl_ms=dice.one((None, None, None, 100, 5_000)),
        max_stalls=dice.one((2, 1, 0)),
        keep=dice.one((Keep(), Keep(), SHORT, NOTHING, LATE_RESULT)),
        unique=_unique(dice) if dice.chance(0.25) else None,
        at_most_ms=dice.one((None, None, 0, 150)),
        reuse=dice.one((frozenset[State](), TERMINAL, DEAD)),
        parents=dice.some(_parent, 2) if dice.chance(0.2) else (),
        overrides=b"o" if _flag(dice) else b"",
        headers=b"h" if _flag(dice) else b"",
        request=dice.one((0, 0, 7, 8)),
        trail=dice.one((0, 0, 1, 3, 100)),
    )


def _jobs(dice: _Dice) -> tuple[NewJob, ...]:
    return dice.some(_job, 4)


def _where(dice: _Dice) -> Filter:
    return Filter(
        states=dice.one((frozenset[State](), TERMINAL, frozenset({State.WAITING, State.FAILED}))),
        task=dice.one((None, None, "t")),
        id_prefix=dice.one((None, None, "a")),
        older_than_ms=dice.one((None, 100)),
        newer_than_ms=dice.one((None, None, 200)),
        oldest_first=dice.chance(0.3),
    )


_limit = _of(*LIMITS)
_worker = _of(*WORKERS)
_schedule = _of(*SCHEDULES)
_tick = _of(1, 2, 3)
_short_ms = _of(0, 50, 150)
_any_states = _of(ANY_STATE, ANY_STATE, TERMINAL)
_not_started = _of(NOT_STARTED, NOT_STARTED, frozenset({State.WAITING}))

CALLS: dict[str, dict[str, Draw]] = {
    "enqueue": {"queue": _queue, "jobs": _jobs},
    "claim": {
        "queue": _queue,
        "limit": _limit,
        "worker": _worker,
        "again": _of(0, 0, 0, 1, 2),
        "suspect": _flag,
        "lease_ms": _of(1_000, 100),
    },
    "settle": {"queue": _queue, "what": lambda dice: dice.some(_settled, 3)},
    "exchange": {
        "queue": _queue,
        "what": lambda dice: dice.some(_settled, 2),
        "limit": _limit,
        "worker": _worker,
    },
    "renew": {
        "queue": _queue,
        "which": lambda dice: dice.some(_which, 3, 0),
        "twist": _twist,
        "lease_ms": _of(1_000),
    },
    "note": {
        "queue": _queue,
        "which": _which,
        "kind": _of(*NoteKind),
        "twist": _twist,
        "child": _job,
        "number": _of(0, 0, 1, 2, 3),
    },
    "sweep": {"queue": _queue, "limit": _limit, "after_ms": _of(1_500, 150, 0)},
    "advance": {"queue": _queue, "limit": _limit},
    "prune": {"queue": _queue, "limit": _limit, "newest": _of(RECORD_LIMIT, RECORD_LIMIT, 2, 1)},
    "relay": {"queue": _queue, "limit": _limit, "forgets": _flag},
    "attach": {"queue": _queue, "parent": _id, "child": _id, "policy": _policy},
    "resolve": {"queue": _queue, "child": _id, "parent": _id, "passes": _flag},
    "cancel": {"queue": _queue, "ids": _ids},
    "cancel_started": {"queue": _queue, "which": _which},
    "pause": {"queue": _queue},
    "resume": {"queue": _queue},
    "promote": {"queue": _queue, "ids": _ids},
    "reprioritise": {"queue": _queue, "ids": _ids, "priority": _of(-5, 0, 5)},
    "reschedule": {"queue": _queue, "ids": _ids, "delay_ms": _short_ms, "from_now_ms": _of(None, 0, 150)},
    "replay": {"queue": _queue, "ids": _ids, "request": _of(1, 2, 3, 4)},
    "remove": {"queue": _queue, "ids": _ids, "force": _rarely, "states": _any_states},
    "drain": {"queue": _queue, "limit": _of(0, 1, 2), "states": _not_started},
    "purge": {"queue": _queue, "states": _of(TERMINAL, DEAD), "age_ms": _of(0, 100), "limit": _limit},
    "obliterate": {"queue": _queue, "force": _rarely},
    "find": {"queue": _queue, "where": _where, "limit": _of(1, 2, 100), "goes_on": _flag},
    "events": {"queue": _queue, "since": _of(None, 0, 1, 3, 5), "limit": _of(1, 5, 1_000)},
    "trail": {"queue": _queue, "id_": _id, "generation": _of(None, None, 1, 2), "limit": _of(1, 2, 100)},
    "announce": {"worker": _worker, "running": _of(0, 1), "ttl_ms": _of(200)},
    "retire": {"worker": _worker},
    "put_schedule": {"name": _schedule, "queue": _queue, "cursor_ms": _tick, "paused": _rarely},
    "delete_schedule": {"name": _schedule},
    "advance_schedule": {"name": _schedule, "seen_ms": _tick, "new_ms": _tick, "jobs": _jobs},
    "move_clock": {"by_ms": _of(*STEPS_MS)},
}


def _one_of_many(dice: _Dice) -> NewJob:
    if dice.chance(0.15):
        return _job(dice)
    return NewJob(
        id=dice.one(CROWD),
        task=dice.one(("t", "t", "t", "u")),
        payload=dice.one((b"", b"x", b"x")),
        priority=dice.one((0, 0, 0, 0, 1)),
        keep=dice.one((Keep(), Keep(), SHORT, NOTHING, LATE_RESULT)),
        reuse=dice.one((frozenset[State](), frozenset[State](), TERMINAL)),
    )


def _end_of_many(dice: _Dice) -> tuple[int, str, str, bool]:
    happened = "returned" if dice.chance(0.7) else dice.one(tuple(HAPPENINGS))
    return dice.one(range(18)), happened, _twist(dice) if dice.chance(0.5) else "", dice.chance(0.1)


def _many_ends(dice: _Dice) -> tuple[tuple[int, str, str, bool], ...]:
    return dice.some(_end_of_many, dice.one((1, 4, 10, 20)))


_many = _of(1, 2, 5, 10, 20, 70, 100)
_CROWDED: dict[str, dict[str, Draw]] = {
    **CALLS,
    "enqueue": {"queue": _queue, "jobs": lambda dice: dice.some(_one_of_many, dice.one((2, 6, 12, 30)))},
    "claim": {**CALLS["claim"], "limit": _many},
    "settle": {"queue": _queue, "what": _many_ends},
    "exchange": {**CALLS["exchange"], "what": _many_ends, "limit": _many},
}
_WEIGHTS = {
    "enqueue": 30,
    "claim": 30,
    "settle": 25,
    "exchange": 6,
    "move_clock": 10,
    "sweep": 8,
    "advance": 8,
    "relay": 8,
    "resume": 8,
    "note": 5,
    "renew": 5,
    "replay": 5,
    "obliterate": 1,
    "drain": 1,
    "pause": 2,
}
_DRAWN = [name for name in CALLS for _ in range(_WEIGHTS.get(name, 3))]
