"""The worker's random numbers: request ids, settlement ids, jitter."""

from __future__ import annotations

import random


class Dice:
    """One stream of random numbers. Owner: one worker.

    Made when the worker starts, not when it is constructed: two processes forked from one that had
    constructed it would otherwise make the same ids.
    """

    def __init__(self, source: random.Random | None = None) -> None:
        self._source = source or random.Random()  # noqa: S311 - seeded by the system; no secret hangs on it

    def request_id(self) -> str:
        """Answer 128 random bits in hex."""
        return f"{self._source.getrandbits(128):032x}"

    def settlement_id(self) -> int:
        """Answer a number from 1 up, below 2**63."""
        return self._source.getrandbits(63) or 1

    def roll(self) -> float:
        """Answer a number evenly spread in [0, 1)."""
        return self._source.random()
