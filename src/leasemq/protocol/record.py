"""Frozen dataclasses that are cheap to make, for the values of which every job needs several.

A frozen dataclass is made by Python code that sets one field after the other: ten of them cost a job more
than its decoding does. These are made in C, and refuse an assignment all the same. For type checkers, and
for `dataclasses.replace`, `fields` and `asdict`, they are ordinary frozen dataclasses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:
    from dataclasses import dataclass

    import msgspec

    _ADDED = frozenset({"__dict__", "__weakref__"})  # by Python, to a class without slots

    def record(*, frozen, slots, kw_only):
        """Make such a class of plain values, which take part in no cycle: nobody need look for one."""

        def made(cls):
            described = vars(dataclass(init=False, repr=False, eq=False)(cls))
            namespace = {name: value for name, value in described.items() if name not in _ADDED}
            kind = type(msgspec.Struct)
            return kind(
                cls.__name__, (msgspec.Struct,), namespace, frozen=frozen, kw_only=kw_only, gc=not slots
            )

        return made


__all__ = ["record"]
