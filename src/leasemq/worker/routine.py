"""What a worker needs to know of a task: a frozen value that the task builds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from leasemq.carried import Carried
from leasemq.context import Ctx, Provider
from leasemq.dependencies import NO_DEPENDENCIES, Dependencies
from leasemq.errors import InvalidSetting
from leasemq.protocol.declared import NOTHING_DECLARED, DeclaredErrors
from leasemq.protocol.envelope import DEFAULT_LIMIT_BYTES
from leasemq.protocol.retry import Retry
from leasemq.protocol.signature import Signature

Around = Callable[[Ctx, Callable[[], Awaitable[Any]]], Awaitable[Any]]
"""What runs around one attempt, in the worker's loop: it awaits the inner call and answers its value."""


class Executor(StrEnum):
    """Where a function runs."""

    LOOP = "loop"
    THREAD = "thread"
    PROCESS = "process"


@dataclass(frozen=True, slots=True, kw_only=True)
class Routine:
    """One registered function with its policy."""

    name: str
    call: Callable[..., Any]
    is_async: bool
    takes_context: bool
    signature: Signature
    retry: Retry | None = None
    raises: DeclaredErrors = NOTHING_DECLARED
    timeout_ms: int | None = None
    lease_ms: int | None = None  # None: the worker's
    result_limit_bytes: int = DEFAULT_LIMIT_BYTES
    aliases: tuple[str, ...] = ()
    executor: Executor | None = None  # None: the loop for an async function, else a thread
    memory_limit_bytes: int | None = None  # of a child process
    around: Around | None = None
    carried: Carried | None = None  # the context variables that come with its jobs
    dependencies: Dependencies = NO_DEPENDENCIES
    shared: Provider | None = None  # the worker's own scope of dependencies
    runs_in: Executor = field(init=False)  # where its function runs
    is_bare: bool = field(init=False)  # in the loop, nothing is around it, and it sees its arguments alone

    def __post_init__(self) -> None:
        runs_in = self.executor or (Executor.LOOP if self.is_async else Executor.THREAD)
        is_bare = not self.takes_context and self.around is None and runs_in is Executor.LOOP
        object.__setattr__(self, "runs_in", runs_in)
        object.__setattr__(self, "is_bare", is_bare)


def by_name(routines: Mapping[str, Routine]) -> dict[str, Routine]:
    """Answer the routines under their names and aliases. Raises: InvalidSetting if two share one."""
    found = dict(routines)
    for routine in routines.values():
        for alias in routine.aliases:
            if found.setdefault(alias, routine) is not routine:
                raise InvalidSetting(f"alias {alias!r} of task {routine.name!r} is another task's name")
    return found
