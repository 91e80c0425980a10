"""LeaseMQ: an at-least-once task queue whose leases are fenced.

A job that was accepted is offered to workers until one of them records how it ended. Whoever lost a
job can write nothing about it any more.

The names below are imported when they are first used, so that `import leasemq` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leasemq.app import App
    from leasemq.context import Ctx
    from leasemq.errors import (
        BackendUnavailable,
        Dead,
        IndeterminateWrite,
        JobCancelled,
        JobExpired,
        JobFailed,
        JobNotFound,
        LeaseLost,
        LeaseMQError,
        Refused,
        ResultExpired,
        RetryAfter,
        Snooze,
        Unsupported,
        WaitTimeout,
    )
    from leasemq.job import Job
    from leasemq.naming import Unique
    from leasemq.protocol.model import Parent, State
    from leasemq.protocol.retry import Retry
    from leasemq.protocol.shape import Secret
    from leasemq.task import Task

__all__ = [
    "App",
    "BackendUnavailable",
    "Ctx",
    "Dead",
    "IndeterminateWrite",
    "Job",
    "JobCancelled",
    "JobExpired",
    "JobFailed",
    "JobNotFound",
    "LeaseLost",
    "LeaseMQError",
    "Parent",
    "Refused",
    "ResultExpired",
    "Retry",
    "RetryAfter",
    "Secret",
    "Snooze",
    "State",
    "Task",
    "Unique",
    "Unsupported",
    "WaitTimeout",
]


if not TYPE_CHECKING:  # else a type checker would believe in any name

    def __getattr__(name: str) -> object:
        """Import a public name at its first use."""
        if name not in __all__:
            raise AttributeError(f"module 'leasemq' has no attribute {name!r}")
        match name:
            case "App":
                home = import_module("leasemq.app")
            case "Ctx":
                home = import_module("leasemq.context")
            case "Job":
                home = import_module("leasemq.job")
            case "Parent" | "State":
                home = import_module("leasemq.protocol.model")
            case "Retry":
                home = import_module("leasemq.protocol.retry")
            case "Secret":
                home = import_module("leasemq.protocol.shape")
            case "Task":
                home = import_module("leasemq.task")
            case "Unique":
                home = import_module("leasemq.naming")
            case _:
                home = import_module("leasemq.errors")
        value: object = getattr(home, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
