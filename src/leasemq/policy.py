"""What a task, and one enqueue of it, may say about its jobs: public words in, checked values out."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypedDict

from leasemq.errors import InvalidSetting
from leasemq.naming import Make, Naming, Unique, checked_naming
from leasemq.option_checks import (
    Named,
    check_executor,
    check_retry,
    check_words,
    checked_memory_limit,
    checked_parent,
    flag,
    from_zero_ms,
    listed,
    positive_ms,
    terminal_states,
    whole,
)
from leasemq.protocol.declared import DeclaredErrors
from leasemq.protocol.model import (
    PRIORITIES,
    TRAIL_LIMIT,
    Keep,
    NewJob,
    Parent,
    Ref,
    State,
)
from leasemq.protocol.model import Unique as StoredUnique
from leasemq.protocol.names import check_queue, check_task_name
from leasemq.protocol.overrides import Overrides, encode_overrides
from leasemq.protocol.retry import Retry
from leasemq.protocol.times import due_at_ms, seconds_to_ms
from leasemq.settings import DEFAULT_QUEUE, Seconds, kept

MAX_STALLS_LIMIT = 1_000


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
    raises: Sequence[type[Exception]]  # stored with their values; who waits gets them back
    aliases: Sequence[str]  # former names, under which jobs may still wait
    history: int  # entries of a job's own history that are kept, 0 to 10,000; default: none
    id: Make | None  # makes the id from the arguments that it names; None: a fresh one for each job
    unique: str | Make | Unique | None


class CallOptions(TypedDict, total=False):
    """What `task.options(...)` takes. Times are seconds or timedelta."""

    delay: Seconds
    due_at: datetime  # with a time zone; in the past means now
    id: str | Make | None  # None: a fresh one, whatever the task says
    priority: int
    ttl: Seconds
    queue: str
    unique: str | Make | Unique | None  # None: none, whatever the task says
    reuse: Iterable[State | str]  # terminal states whose record a new generation may replace
    strict: bool  # a known id with other arguments raises IdConflict
    retry: Retry  # without rules by exception class, which cannot be stored
    timeout: Seconds
    max_stalls: int
    after: Iterable[Named | Parent]  # jobs that must complete first
    wait_timeout: Seconds  # how long enqueue_and_wait waits; default: for ever
    session: object  # the caller's open transaction, which stores the job or takes it back
    history: int
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
    raises: DeclaredErrors
    history: int
    naming: Naming

    def keep(self, default: Keep) -> Keep:
        """Answer how long this task's records stay."""
        return _keep(default, self.keep_result_ms, self.keep_record_ms, self.keep_dead_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How one enqueue stores its jobs: everything but their ids, keys and arguments."""

    queue: str
    naming: Naming
    strict: bool
    delay_ms: int
    due_at_ms: int | None
    priority: int
    ttl_ms: int | None
    max_stalls: int
    keep: Keep
    reuse: frozenset[State]
    parents: tuple[Parent, ...]
    overrides: bytes
    wait_ms: int | None  # of enqueue_and_wait
    history: int
    session: object  # None: the job is stored at once

    def job(
        self,
        id_: str,
        task: str,
        payload: bytes,
        *,
        unique: StoredUnique | None = None,
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
            unique=unique,
            at_most_ms=self.naming.at_most_ms,
            reuse=self.reuse,
            parents=self.parents,
            overrides=self.overrides,
            trail=self.history,
            headers=headers,
            creator=creator,
            request=request,
        )


def checked_policy(
    options: TaskOptions, default_name: str, parameters: inspect.Signature, *, is_async: bool
) -> Policy:
    """Answer the task's policy; `parameters` are the function's, without its context.

    Raises: InvalidSetting, InvalidName, InvalidDelay, Unsupported, TypeError.
    """
    check_words(options, TaskOptions, "task")
    executor = options.get("executor", "auto")
    check_executor(executor, is_async=is_async)
    retry = check_retry(options.get("retry"))
    aliases = options.get("aliases", ())
    if isinstance(aliases, str):
        raise InvalidSetting(f"aliases={aliases!r} is a text; say aliases=({aliases!r},)")
    return Policy(
        name=check_task_name(options.get("name", default_name)),
        queue=check_queue(options.get("queue", DEFAULT_QUEUE)),
        has_retry="retry" in options,
        retry=retry,
        timeout_ms=positive_ms(options, "timeout"),
        lease_ms=positive_ms(options, "lease"),
        max_stalls=whole("max_stalls", options.get("max_stalls", 2), range(MAX_STALLS_LIMIT + 1)),
        priority=whole("priority", options.get("priority", 0), PRIORITIES),
        ttl_ms=positive_ms(options, "ttl"),
        keep_result_ms=from_zero_ms(options, "keep_result"),
        keep_record_ms=from_zero_ms(options, "keep_record"),
        keep_dead_ms=from_zero_ms(options, "keep_dead"),
        aliases=tuple(check_task_name(alias) for alias in aliases),
        executor=executor,
        memory_limit_bytes=checked_memory_limit(options.get("memory_limit"), executor),
        raises=DeclaredErrors.of(options.get("raises", ()), task=options.get("name", default_name)),
        history=whole("history", options.get("history", 0), range(TRAIL_LIMIT + 1)),
        naming=checked_naming(options, Naming(), parameters),
    )


def checked_plan(
    policy: Policy, default_keep: Keep, options: CallOptions, parameters: inspect.Signature
) -> Plan:
    """Answer how the jobs are stored; `parameters` are the function's, without its context.

    Raises: InvalidSetting, InvalidName, InvalidDelay, NaiveDatetime, TypeError.
    """
    check_words(options, CallOptions, "options")
    if "delay" in options and "due_at" in options:
        raise InvalidSetting("delay= and due_at= both say when; give one of them")
    keep = _keep(
        policy.keep(default_keep),
        from_zero_ms(options, "keep_result"),
        from_zero_ms(options, "keep_record"),
        from_zero_ms(options, "keep_dead"),
    )
    ttl_ms = positive_ms(options, "ttl")
    retry = check_retry(options.get("retry"))
    overrides = Overrides(retry=retry, timeout_ms=positive_ms(options, "timeout"))
    naming = checked_naming(options, policy.naming, parameters)
    return Plan(
        queue=check_queue(options.get("queue", policy.queue)),
        naming=naming,
        strict=flag("strict", options.get("strict", False)),
        delay_ms=seconds_to_ms(options.get("delay", naming.first_delay)),
        due_at_ms=max(0, due_at_ms(options["due_at"])) if "due_at" in options else None,
        priority=whole("priority", options.get("priority", policy.priority), PRIORITIES),
        ttl_ms=policy.ttl_ms if ttl_ms is None else ttl_ms,
        max_stalls=whole(
            "max_stalls", options.get("max_stalls", policy.max_stalls), range(MAX_STALLS_LIMIT + 1)
        ),
        keep=keep,
        reuse=terminal_states("reuse", options.get("reuse", ())),
        parents=tuple(checked_parent(one) for one in listed("after", options.get("after", ()))),
        overrides=encode_overrides(overrides),
        wait_ms=from_zero_ms(options, "wait_timeout"),
        history=whole("history", options.get("history", policy.history), range(TRAIL_LIMIT + 1)),
        session=options.get("session"),
    )


def _keep(default: Keep, result_ms: int | None, record_ms: int | None, dead_ms: int | None) -> Keep:
    """Answer the default with what is given in place; a record follows a result that is given alone."""
    if result_ms is None:
        result_ms, record_ms = default.result_ms, default.record_ms if record_ms is None else record_ms
    return kept(result_ms, record_ms, default.dead_ms if dead_ms is None else dead_ms)
