"""Which queue a worker asks next: by listed order, or in turns by weight.

Turns are smooth weighted round robin (as in nginx's upstream module), counted in jobs taken rather than
in questions asked, so that one claim for many slots is paid for like many claims for one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

MAX_WEIGHT = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The queues in listed order, and what each is owed. Without weights the first that has work is next."""

    queues: tuple[str, ...]
    weights: tuple[int, ...] = ()
    owed: Mapping[str, int] = field(default_factory=dict)


def turns_of(queues: Collection[str] | Mapping[str, int]) -> Turns:
    """Answer the turns of a list of queues (strict order) or a mapping of queue to weight."""
    if isinstance(queues, Mapping):
        return Turns(queues=tuple(queues), weights=tuple(queues.values()))
    return Turns(queues=tuple(queues))


def next_queue(turns: Turns, ready: Collection[str]) -> str | None:
    """Answer which of the ready queues is asked next; None if none is ready."""
    found: str | None = None
    most = 0
    for position, queue in enumerate(turns.queues):
        if queue not in ready:
            continue
        if not turns.weights:
            return queue
        claim = turns.owed.get(queue, 0) + turns.weights[position]
        if found is None or claim > most:
            found, most = queue, claim
    return found


def after_taking(turns: Turns, ready: Collection[str], queue: str, taken: int) -> Turns:
    """Answer the turns after `taken` jobs of one queue, while `ready` queues (that one included) had work.

    A queue that is not ready neither earns nor pays, so an idle one hoards no turns.
    """
    if not turns.weights or taken == 0:
        return turns
    weighed = {name: w for name, w in zip(turns.queues, turns.weights, strict=True) if name in ready}
    owed = dict(turns.owed)
    for name, weight in weighed.items():
        owed[name] = owed.get(name, 0) + weight * taken
    owed[queue] = owed.get(queue, 0) - sum(weighed.values()) * taken
    return replace(turns, owed=owed)
