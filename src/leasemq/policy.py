"""What a task, and one enqueue of it, may say about its jobs: public words in, checked values out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal, Protocol, TypedDict, TypeVar, get_type_hints

from leasemq.errors import InvalidSetting, Unsupported
from leasemq.protocol.model import (
    PRIORITIES,
    TERMINAL,
    Keep,
    NewJob,
    OnParentFailure,
    Parent,
    Ref,
    State,
    UniqueMode,
    UniqueUntil,
)
from leasemq.protocol.model import Unique as StoredUnique
from leasemq.protocol.names import check_job_id, check_key, check_queue, check_task_name
from leasemq.protocol.overrides import Overrides, encode_overrides
from leasemq.protocol.retry import Retry
from leasemq.protocol.sizes import size_to_bytes
from leasemq.protocol.times import due_at_ms, positive_seconds_to_ms, seconds_to_ms
from leasemq.settings import DEFAULT_QUEUE, Seconds, kept

MAX_STALLS_LIMIT = 1_000

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """A key that at most one job of the queue holds, and what an enqueue does that finds it held.

    Args:
        mode: `skip` answers the holder; `replace` gives a holder that has not started the new arguments;
            `debounce` does so too, and makes it due a window from now; `throttle` lets one a window in.
        until: whether the holder's `start` or its `end` frees the key; with `throttle` only the window does.
        window: seconds or timedelta after which the key is free at the latest; debounce and throttle need it.

    Raises: InvalidSetting, InvalidName.
    """

    key: str
    mode: UniqueMode | Literal["skip", "replace", "debounce", "throttle"] = UniqueMode.SKIP
    until: UniqueUntil | Literal["start", "end"] = UniqueUntil.END
    window: Seconds | None = None

    def __post_init__(self) -> None:
        self.stored()  # what is wrong is refused where it is written, not at some later enqueue

    def stored(self) -> StoredUnique:
        """Answer it as the backends know it."""
        mode = _one_of(UniqueMode, "mode", self.mode)
        if self.window is None and mode in (UniqueMode.DEBOUNCE, UniqueMode.THROTTLE):
            raise InvalidSetting(f"mode={mode.value!r} needs a window, such as window=60 (seconds)")
        return StoredUnique(
            key=check_key(self.key),
            mode=mode,
            until=_one_of(UniqueUntil, "until", self.until),
            window_ms=None if self.window is None else positive_seconds_to_ms(self.window, "window"),
        )


class TaskOptions(TypedDict, total=False):
    """What `@app.task(...)` takes. Times are seconds or timedelta."""

    name: str  # what the task is called in the backend; default: module.qualname
    queue: str
    retry: Retry | None  # default: the app's; None: never
    timeout: Seconds  # longest run of one attempt
    lease: Seconds
    max_stalls: int
    priority: int  # -100 to 100, higher first
    ttl: Seconds  # a job not started within it expires
    executor: Literal["auto", "thread", "process"]  # auto: the loop for an async function, else a thread
    memory_limit: int | str  # bytes, or "512MiB": what a function in a child process may take
    keep_result: Seconds
    keep_record: Seconds
    keep_dead: Seconds
    aliases: Sequence[str]  # former names, under which jobs may still wait


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


class CallOptions(TypedDict, total=False):
    """What `task.options(...)` takes. Times are seconds or timedelta."""

    delay: Seconds
    due_at: datetime  # with a time zone; in the past means now
    id: str
    priority: int
    ttl: Seconds
    queue: str
    unique: str | Unique
    reuse: Iterable[State | str]  # terminal states whose record a new generation may replace
    strict: bool  # a known id with other arguments raises IdConflict
    retry: Retry  # without rules by exception class, which cannot be stored
    timeout: Seconds
    max_stalls: int
    after: Iterable[Named | Parent]  # jobs that must complete first
    keep_result: Seconds
    keep_record: Seconds
    keep_dead: Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What a task's decorator says, checked. None: the app's or the worker's default holds."""

    name: str
    queue: str
    has_retry: bool
    retry: Retry | None
    timeout_ms: int | None
    lease_ms: int | None
    max_stalls: int
    priority: int
    ttl_ms: int | None
    keep_result_ms: int | None
    keep_record_ms: int | None
    keep_dead_ms: int | None
    aliases: tuple[str, ...]
    executor: Literal["auto", "thread", "process"]
    memory_limit_bytes: int | None

    def keep(self, default: Keep) -> Keep:
        """Answer how long this task's records stay."""
        return _keep(default, self.keep_result_ms, self.keep_record_ms, self.keep_dead_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one enqueue stores its jobs: everything but their ids and arguments."""

    queue: str
    id: str | None
    strict: bool
    delay_ms: int
    due_at_ms: int | None
    priority: int
    ttl_ms: int | None
    max_stalls: int
    keep: Keep
    unique: StoredUnique | None
    reuse: frozenset[State]
    parents: tuple[Parent, ...]
    overrides: bytes

    def job(
        self,
        id_: str,
        task: str,
        payload: bytes,
        *,
        headers: bytes = b"",
        creator: Ref | None = None,
        request: int = 0,
    ) -> NewJob:
        """Answer the job to store.

        Args:
            headers: the context that travels with it.
            creator: the job whose function enqueues it.
            request: a random number by which a repeat is known where the id does not tell (`reuse`).
        """
        return NewJob(
            id=id_,
            task=task,
            payload=payload,
            priority=self.priority,
            delay_ms=self.delay_ms,
            due_at_ms=self.due_at_ms,
            ttl_ms=self.ttl_ms,
            max_stalls=self.max_stalls,
            keep=self.keep,
            unique=self.unique,
            reuse=self.reuse,
            parents=self.parents,
            overrides=self.overrides,
            headers=headers,
            creator=creator,
            request=request,
        )


def checked_policy(options: TaskOptions, default_name: str, *, is_async: bool) -> Policy:
    """Answer the task's policy. Raises: InvalidSetting, InvalidName, InvalidDelay, Unsupported, TypeError."""
    _check_words(options, TaskOptions, "task")
    executor = options.get("executor", "auto")
    _check_executor(executor, is_async=is_async)
    retry = check_retry(options.get("retry"))
    aliases = options.get("aliases", ())
    if isinstance(aliases, str):
        raise InvalidSetting(f"aliases={aliases!r} is a text; say aliases=({aliases!r},)")
    return Policy(
        name=check_task_name(options.get("name", default_name)),
        queue=check_queue(options.get("queue", DEFAULT_QUEUE)),
        has_retry="retry" in options,
        retry=retry,
        timeout_ms=_positive(options, "timeout"),
        lease_ms=_positive(options, "lease"),
        max_stalls=_whole("max_stalls", options.get("max_stalls", 2), range(MAX_STALLS_LIMIT + 1)),
        priority=_whole("priority", options.get("priority", 0), PRIORITIES),
        ttl_ms=_positive(options, "ttl"),
        keep_result_ms=_from_zero(options, "keep_result"),
        keep_record_ms=_from_zero(options, "keep_record"),
        keep_dead_ms=_from_zero(options, "keep_dead"),
        aliases=tuple(check_task_name(alias) for alias in aliases),
        executor=executor,
        memory_limit_bytes=_memory_limit(options.get("memory_limit"), executor),
    )


def checked_plan(policy: Policy, default_keep: Keep, options: CallOptions) -> Plan:
    """Answer how the jobs are stored.

    Raises: InvalidSetting, InvalidName, InvalidDelay, NaiveDatetime, TypeError.
    """
    _check_words(options, CallOptions, "options")
    if "delay" in options and "due_at" in options:
        raise InvalidSetting("delay= and due_at= both say when; give one of them")
    keep = _keep(
        policy.keep(default_keep),
        _from_zero(options, "keep_result"),
        _from_zero(options, "keep_record"),
        _from_zero(options, "keep_dead"),
    )
    ttl_ms = _positive(options, "ttl")
    retry = check_retry(options.get("retry"))
    overrides = Overrides(retry=retry, timeout_ms=_positive(options, "timeout"))
    return Plan(
        queue=check_queue(options.get("queue", policy.queue)),
        id=check_job_id(options["id"]) if "id" in options else None,
        strict=_flag("strict", options.get("strict", False)),
        delay_ms=seconds_to_ms(options.get("delay", 0)),
        due_at_ms=max(0, due_at_ms(options["due_at"])) if "due_at" in options else None,
        priority=_whole("priority", options.get("priority", policy.priority), PRIORITIES),
        ttl_ms=policy.ttl_ms if ttl_ms is None else ttl_ms,
        max_stalls=_whole(
            "max_stalls", options.get("max_stalls", policy.max_stalls), range(MAX_STALLS_LIMIT + 1)
        ),
        keep=keep,
        unique=_unique(options.get("unique")),
        reuse=_terminal_states("reuse", options.get("reuse", ())),
        parents=tuple(_parent(one) for one in _listed("after", options.get("after", ()))),
        overrides=encode_overrides(overrides),
    )


def _keep(default: Keep, result_ms: int | None, record_ms: int | None, dead_ms: int | None) -> Keep:
    """Answer the default with what is given in place; a record follows a result that is given alone."""
    if result_ms is None:
        result_ms, record_ms = default.result_ms, default.record_ms if record_ms is None else record_ms
    return kept(result_ms, record_ms, default.dead_ms if dead_ms is None else dead_ms)


def _check_words(options: Mapping[str, Any], known: type, place: str) -> None:
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


def _check_executor(executor: str, *, is_async: bool) -> None:
    if executor not in ("auto", "thread", "process"):
        raise InvalidSetting(f"executor={executor!r} is not one of 'auto', 'thread', 'process'")
    if executor == "thread" and is_async:
        raise InvalidSetting("executor='thread' is for plain functions; an async one runs in the loop")


def _memory_limit(given: object, executor: str) -> int | None:
    if given is None:
        return None
    if executor != "process":
        raise InvalidSetting(
            f"memory_limit={given!r} is for a function in a child process; add executor='process'"
        )
    if not sys.platform.startswith("linux"):  # others take the limit and do not keep it, or lack it
        raise Unsupported(f"memory_limit={given!r} cannot be kept on {sys.platform}; leave it out")
    return size_to_bytes(given, "memory_limit")


def _whole(name: str, value: object, allowed: range) -> int:
    if type(value) is not int or value not in allowed:
        raise InvalidSetting(
            f"{name}={value!r} is not a whole number from {allowed.start} to {allowed.stop - 1}"
        )
    return value


def _positive(options: Mapping[str, Any], name: str) -> int | None:
    value = options.get(name)
    return None if value is None else positive_seconds_to_ms(value, name)


def _from_zero(options: Mapping[str, Any], name: str) -> int | None:
    value = options.get(name)
    return None if value is None else seconds_to_ms(value, name)


def _unique(given: str | Unique | None) -> StoredUnique | None:
    match given:
        case None:
            return None
        case Unique():
            return given.stored()
        case str():
            return Unique(key=given).stored()
        case _:
            raise InvalidSetting(f"unique={given!r} is neither a text nor a leasemq.Unique")


def _one_of(choices: type[E], name: str, given: object) -> E:
    if not isinstance(given, str) or given not in set(choices):
        raise InvalidSetting(f"{name}={given!r} is not one of {', '.join(choices)}")
    return choices(given)


def _terminal_states(name: str, given: Iterable[State | str]) -> frozenset[State]:
    if isinstance(given, str):
        raise InvalidSetting(f"{name}={given!r} is a text; say {name}={{{given!r}}}")
    chosen = set()
    for one in given:
        if one not in TERMINAL:
            allowed = ", ".join(sorted(TERMINAL))
            raise InvalidSetting(f"{name} has {one!r}, which is not one of {allowed}")
        chosen.add(State(one))
    return frozenset(chosen)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidSetting(f"{name}={value!r} is neither True nor False")
    return value


def _listed(name: str, given: object) -> Iterable[Any]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InvalidSetting(f"{name}={given!r} is no list; say {name}=[job]")
    return given


def _parent(given: Named | Parent) -> Parent:
    if not (isinstance(getattr(given, "queue", None), str) and isinstance(getattr(given, "id", None), str)):
        raise InvalidSetting(f"after has {given!r}, which is neither a job nor a leasemq.Parent")
    if isinstance(given, Parent):
        check_queue(given.queue)
        check_job_id(given.id)
        return Parent(queue=given.queue, id=given.id, on_failure=OnParentFailure(given.on_failure))
    return Parent(queue=given.queue, id=given.id)
