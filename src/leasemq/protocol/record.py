"""Frozen dataclasses that are cheap to make, for the values of which every job needs several.

A frozen dataclass sets each field through `object.__setattr__`, which takes three times as long as an
assignment: ten of them cost a job more than its decoding does. Type checkers see an ordinary frozen
dataclass, and refuse an assignment in every module of this package; at run time there is no other guard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    from dataclasses import dataclass

    def record(*, frozen, slots, kw_only=False):
        """Make a dataclass that compares and hashes by its fields, as a frozen one does."""
        return dataclass(slots=slots, kw_only=kw_only, unsafe_hash=frozen)


__all__ = ["record"]
