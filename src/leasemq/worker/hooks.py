"""What an app wants done in the worker's loop before its first claim, and after its last settlement."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

Hook = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hooks:
    """Hooks by moment; those of the start in their order, those of the stop in reverse."""

    start: tuple[Hook, ...] = ()
    stop: tuple[Hook, ...] = ()


NO_HOOKS = Hooks()
