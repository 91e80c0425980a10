"""Which jobs a demo run has, in which order, and how much work each is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from leasemq.demo.material import Piece, passes

FEWEST, MOST, USUAL = 20, 10_000, 200
_LONG_EVERY = 4
_LONG_BEFORE = 60  # later ones are not needed: one worker is killed early on
_HEAVY_AT = (0.3, 0.4, 0.5, 0.6)  # of all jobs


class Weight(Enum):
    """About how much work a job is; its value is in milliseconds."""

    ORDINARY = 30  # at the usual number of jobs; less with more
    LONG = 250  # long enough to be killed in the middle
    HEAVY = 1_000  # long enough for a stale result to arrive in the middle


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One job to be: sum up the file `passes` times and find the same checksum each time."""

    id: str
    piece: Piece
    passes: int
    weight: Weight


def planned(pieces: Sequence[Piece], count: int, speed_bytes_per_ms: float) -> list[Order]:
    """Answer the jobs in their order. Fewer files than jobs are gone through again.

    Long jobs stand among the first, up to the first heavy one; heavy ones from then on.
    """
    heavy = {int(share * count) for share in _HEAVY_AT}
    ordinary_ms = max(1, Weight.ORDINARY.value * USUAL // max(count, USUAL))
    orders = []
    for number in range(count):
        weight = _weight(number, heavy)
        piece = pieces[number % len(pieces)]
        work_ms = ordinary_ms if weight is Weight.ORDINARY else weight.value
        times = passes(piece, work_ms, speed_bytes_per_ms)
        orders.append(Order(id=f"file-{number:05}", piece=piece, passes=times, weight=weight))
    return orders


def _weight(number: int, heavy: set[int]) -> Weight:
    if number in heavy:
        return Weight.HEAVY
    is_long = number < min(_LONG_BEFORE, *heavy) and number % _LONG_EVERY == _LONG_EVERY - 1
    return Weight.LONG if is_long else Weight.ORDINARY
