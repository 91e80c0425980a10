"""Twins: one random script on two backends, every answer compared, and now and then all that is stored.

The memory backend is the specification. `compare` plays a script and raises where the twins part;
`shortest` cuts the script down to what still parts them. What a listener hears is left out: pushes are
hints, and may be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass, replace

from leasemq.backend import Backend
from leasemq.protocol.insight import Event, EventPage, Page
from leasemq.protocol.model import FollowUp
from leasemq.testing.manual_clock import ManualClock
from leasemq.testing.player import Call, Player

DUMP_EVERY = 10
Script = Sequence[Call]
MakeBackend = Callable[[ManualClock], Backend]


async def compare(
    script: Script, make: MakeBackend, make_other: MakeBackend, *, dump_every: int = DUMP_EVERY
) -> None:
    """Play a script on two fresh backends, each under a clock of its own.

    Args:
        dump_every: after how many calls all that is stored is compared.

    Raises:
        AssertionError: they parted; names the call, both answers, and the script up to there.
    """
    clocks = ManualClock(), ManualClock()
    pair = make(clocks[0]), make_other(clocks[1])
    for backend in pair:
        await backend.prepare()
    players = [Player(backend, clock) for backend, clock in zip(pair, clocks, strict=True)]
    try:
        await _play(script, players, dump_every)
    finally:
        for backend in pair:
            await backend.close()


async def _play(script: Script, players: Sequence[Player], dump_every: int) -> None:
    for number, call in enumerate(script, start=1):
        await _both(call, players, script[:number])
        if number % dump_every == 0 or number == len(script):
            await _both(Call("dump", ()), players, script[:number])


async def _both(call: Call, players: Sequence[Player], script: Script) -> None:
    one, other = [normal(await player.play(call)) for player in players]
    if one != other:
        told = "\n".join(f"  {past!r}" for past in script)
        raise AssertionError(f"the twins part at {call!r}:\n{difference(one, other)}\nafter\n{told}")


async def shortest(script: Script, make: MakeBackend, make_other: MakeBackend) -> str | None:
    """Cut a script down to what still makes the twins part, and answer the telling; None: they do not.

    Takes out halves, then quarters, down to single calls and parts of calls: the simple form of delta
    debugging (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002).
    """
    left, told = list(script), await _parting(script, make, make_other)
    size = len(left)
    while told is not None and size > 1:
        size = (size + 1) // 2
        for start in range(len(left) - size, -size, -size):
            shorter = left[: max(start, 0)] + left[start + size :]
            if (telling := await _parting(shorter, make, make_other)) is not None:
                left, told = shorter, telling
    for number in range(len(left)):
        for thinner in _thinner(left[number]):
            shorter = [*left[:number], thinner, *left[number + 1 :]]
            if (telling := await _parting(shorter, make, make_other)) is not None:
                left, told = shorter, telling
    return told


def _thinner(call: Call) -> Iterator[Call]:
    """The call with but one of the jobs, ids or settlements that it names."""
    for place, (name, value) in enumerate(call.arguments):
        if isinstance(value, tuple) and len(value) > 1:
            for part in value:
                arguments = (*call.arguments[:place], (name, (part,)), *call.arguments[place + 1 :])
                yield Call(call.name, arguments)


async def _parting(script: Script, make: MakeBackend, make_other: MakeBackend) -> str | None:
    try:
        await compare(script, make, make_other, dump_every=1)
    except AssertionError as parting:
        return str(parting)
    return None


def normal(answer: object) -> object:
    """The answer without what may differ: cursors, and the ids of follow-ups."""
    match answer:
        case Event():
            return replace(answer, cursor="")
        case FollowUp():
            return replace(answer, id=0)
        case EventPage(events=events):
            return [normal(event) for event in events]
        case Page(jobs=jobs, cursor=cursor):
            return [*jobs, cursor is not None]
        case dict():
            return {name: normal(value) for name, value in answer.items()}
        case list() | tuple():
            return [normal(value) for value in answer]
        case _:
            return answer


def difference(one: object, other: object, path: str = "answer") -> str:
    """Where two answers differ, down to the field."""
    if type(one) is type(other):
        parts = list(_parts(one, other))
        told = [difference(mine, its, f"{path}{name}") for name, mine, its in parts if mine != its]
        if told:
            return "\n".join(told)
    return f"  {path}: {one!r}\n  {' ' * len(path)}  {other!r}"


def _parts(one: object, other: object) -> Sequence[tuple[str, object, object]]:
    if is_dataclass(one):
        return [
            (f".{field.name}", getattr(one, field.name), getattr(other, field.name)) for field in fields(one)
        ]
    if isinstance(one, dict) and isinstance(other, dict):
        return [(f"[{name!r}]", one[name], other[name]) for name in one if name in other]
    if isinstance(one, list | tuple) and isinstance(other, list | tuple) and len(one) == len(other):
        return [(f"[{number}]", *pair) for number, pair in enumerate(zip(one, other, strict=True))]
    return []
