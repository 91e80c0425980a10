"""What a worker needs to know of a task: a frozen value that the task builds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from leasemq.errors import InvalidSetting
from leasemq.protocol.envelope import DEFAULT_LIMIT_BYTES
from leasemq.protocol.retry import Retry
from leasemq.protocol.signature import Signature


@dataclass(frozen=True, slots=True, kw_only=True)
class Routine:
    """One registered function with its policy."""

    name: str
    call: Callable[..., Any]
    is_async: bool
    takes_context: bool
    signature: Signature
    retry: Retry | None = None
    timeout_ms: int | None = None
    lease_ms: int | None = None  # None: the worker's
    result_limit_bytes: int = DEFAULT_LIMIT_BYTES
    aliases: tuple[str, ...] = ()


def by_name(routines: Mapping[str, Routine]) -> dict[str, Routine]:
    """Answer the routines under their names and aliases. Raises: InvalidSetting if two share one."""
    found = dict(routines)
    for routine in routines.values():
        for alias in routine.aliases:
            if found.setdefault(alias, routine) is not routine:
                raise InvalidSetting(f"alias {alias!r} of task {routine.name!r} is another task's name")
    return found
