"""How the options of tasks and enqueues are checked: a refusal names the option, the value and the remedy."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Protocol, TypeVar, get_type_hints

from leasemq.errors import InvalidSetting, Unsupported
from leasemq.protocol.model import TERMINAL, OnParentFailure, Parent, State
from leasemq.protocol.names import check_job_id, check_queue
from leasemq.protocol.retry import Retry
from leasemq.protocol.sizes import size_to_bytes
from leasemq.protocol.times import positive_seconds_to_ms, seconds_to_ms

E = TypeVar("E", bound=StrEnum)


class Named(Protocol):
    """A job as another names it; every `Job` is one."""

    @property
    def queue(self) -> str:
        """Where it lives."""
        ...

    @property
    def id(self) -> str:
        """Its id."""
        ...


def check_words(options: Mapping[str, Any], known: type, place: str) -> None:
    """Refuse a misspelt option, as Python does where the words stand in the signature."""
    if unknown := options.keys() - known.__annotations__.keys():
        allowed = ", ".join(get_type_hints(known))
        raise TypeError(f"{place}() got an unexpected keyword argument {min(unknown)!r}; it takes {allowed}")


def check_retry(given: object) -> Retry | None:
    """Answer what is a policy or None. Raises: InvalidSetting."""
    if given is None or isinstance(given, Retry):
        return given
    remedy = f"Retry(max_retries={given!r})" if type(given) is int else "Retry(max_retries=5)"
    raise InvalidSetting(f"retry={given!r} is not a Retry; say retry={remedy}")


def check_executor(executor: str, *, is_async: bool) -> None:
    if executor not in ("auto", "thread", "process"):
        raise InvalidSetting(f"executor={executor!r} is not one of 'auto', 'thread', 'process'")
    if executor == "thread" and is_async:
        raise InvalidSetting("executor='thread' is for plain functions; an async one runs in the loop")


def checked_memory_limit(given: object, executor: str) -> int | None:
    if given is None:
        return None
    if executor != "process":
        raise InvalidSetting(
            f"memory_limit={given!r} is for a function in a child process; add executor='process'"
        )
    if not sys.platform.startswith("linux"):  # others take the limit and do not keep it, or lack it
        raise Unsupported(f"memory_limit={given!r} cannot be kept on {sys.platform}; leave it out")
    return size_to_bytes(given, "memory_limit")


def whole(name: str, value: object, allowed: range) -> int:
    if type(value) is not int or value not in allowed:
        raise InvalidSetting(
            f"{name}={value!r} is not a whole number from {allowed.start} to {allowed.stop - 1}"
        )
    return value


def positive_ms(options: Mapping[str, Any], name: str) -> int | None:
    value = options.get(name)
    return None if value is None else positive_seconds_to_ms(value, name)


def from_zero_ms(options: Mapping[str, Any], name: str) -> int | None:
    value = options.get(name)
    return None if value is None else seconds_to_ms(value, name)


def one_of(choices: type[E], name: str, given: object) -> E:
    if not isinstance(given, str) or given not in set(choices):
        raise InvalidSetting(f"{name}={given!r} is not one of {', '.join(choices)}")
    return choices(given)


def terminal_states(name: str, given: Iterable[State | str]) -> frozenset[State]:
    if isinstance(given, str):
        raise InvalidSetting(f"{name}={given!r} is a text; say {name}={{{given!r}}}")
    chosen = set()
    for one in given:
        if one not in TERMINAL:
            allowed = ", ".join(sorted(TERMINAL))
            raise InvalidSetting(f"{name} has {one!r}, which is not one of {allowed}")
        chosen.add(State(one))
    return frozenset(chosen)


def flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidSetting(f"{name}={value!r} is neither True nor False")
    return value


def listed(name: str, given: object) -> Iterable[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidSetting(f"{name}={given!r} is no list; say {name}=[job]")
    return given


def checked_parent(given: Named | Parent) -> Parent:
    if not (isinstance(getattr(given, "queue", None), str) and isinstance(getattr(given, "id", None), str)):
        raise InvalidSetting(f"after has {given!r}, which is neither a job nor a leasemq.Parent")
    if isinstance(given, Parent):
        check_queue(given.queue)
        check_job_id(given.id)
        return Parent(queue=given.queue, id=given.id, on_failure=OnParentFailure(given.on_failure))
    return Parent(queue=given.queue, id=given.id)
