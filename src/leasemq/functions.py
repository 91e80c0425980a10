"""What is asked of the function that becomes a task."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from leasemq.context import Ctx, is_annotated
from leasemq.errors import InvalidSetting


def runs_in_loop(function: Callable[..., Any]) -> bool:
    """Answer whether the function is asynchronous. Raises: InvalidSetting for what is no plain function."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidSetting(f"{function!r} is a generator; a task returns one value")
    if not inspect.isroutine(function):
        raise InvalidSetting(f"{function!r} is not a function")
    return inspect.iscoroutinefunction(function)


def check_importable(function: Callable[..., Any]) -> None:
    """Refuse what no module holds. Whether a module holds the others is known once it is imported."""
    if "<" in function.__qualname__:  # <locals>, <lambda>
        raise InvalidSetting(
            f"executor='process' cannot run {function.__qualname__!r}: a child process imports the function "
            "by its name; define it at the top level of a module"
        )


def takes_context(function: Callable[..., Any]) -> bool:
    """Answer whether the function's first parameter is annotated as `Ctx`."""
    parameters = list(inspect.signature(function).parameters.values())
    return bool(parameters) and is_annotated(function, parameters[0], Ctx)
