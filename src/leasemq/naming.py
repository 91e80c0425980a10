"""What jobs are known by: ids and unique keys, given as texts or made from the arguments of a call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leasemq.errors import InvalidSetting, KeyFailed
from leasemq.option_checks import one_of
from leasemq.protocol.derived_key import derived_key
from leasemq.protocol.model import Unique as StoredUnique
from leasemq.protocol.model import UniqueMode, UniqueUntil
from leasemq.protocol.names import check_job_id, check_key, shown
from leasemq.protocol.signature import Signature
from leasemq.protocol.times import positive_seconds_to_ms
from leasemq.settings import Seconds

# Spelt out, since a lambda given for `Callable[..., str]` has parameters of unknown types to pyright.
Make = (
    Callable[[], str]
    | Callable[[Any], str]
    | Callable[[Any, Any], str]
    | Callable[[Any, Any, Any], str]
    | Callable[[Any, Any, Any, Any], str]
    | Callable[[Any, Any, Any, Any, Any], str]
)
"""Makes an id or a key from a call: it takes, by name, those of the task's arguments that it needs."""

_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_NAMED_REST = inspect.Parameter.VAR_KEYWORD


@dataclass(frozen=True, slots=True, kw_only=True)
class Unique:
    """A key that at most one job of the queue holds, and what an enqueue does that finds it held.

    Args:
        key: a text; or a function that makes one from the arguments it names; None: the task with all its
            arguments. Keys are the queue's: tasks that make the same text share it.
        mode: `skip` answers the holder; `replace` gives a holder that has not started the new arguments;
            `debounce` does so too, and makes it due a window from now; `throttle` lets one a window in.
        until: whether the holder's `start` or its `end` frees the key; with `throttle` only the window does.
        window: seconds or timedelta after which the key is free at the latest; debounce and throttle need it.
        at_most: with `debounce`, how long after the first call the job is due at the latest; None: no bound.

    Raises: InvalidSetting, InvalidName.
    """

    key: str | Make | None = None
    mode: UniqueMode | Literal["skip", "replace", "debounce", "throttle"] = UniqueMode.SKIP
    until: UniqueUntil | Literal["start", "end"] = UniqueUntil.END
    window: Seconds | None = None
    at_most: Seconds | None = None

    def __post_init__(self) -> None:
        # What is wrong is refused where it is written, not at some later enqueue.
        stored = self.stored("any" if self.key is None or callable(self.key) else self.key)
        at_most_ms, window_ms = self.at_most_ms(), stored.window_ms
        if at_most_ms is not None and window_ms is not None and at_most_ms < window_ms:
            raise InvalidSetting(f"at_most={self.at_most!r} is shorter than window={self.window!r}")

    def stored(self, key: str) -> StoredUnique:
        """Answer it as the backends know it. Raises: InvalidName for the key."""
        mode = one_of(UniqueMode, "mode", self.mode)
        if self.window is None and mode in (UniqueMode.DEBOUNCE, UniqueMode.THROTTLE):
            raise InvalidSetting(f"mode={mode.value!r} needs a window, such as window=60 (seconds)")
        if self.at_most is not None and mode is not UniqueMode.DEBOUNCE:
            raise InvalidSetting(
                f"at_most={self.at_most!r} bounds a debounce; mode={mode.value!r} puts nothing off"
            )
        return StoredUnique(
            key=check_key(key),
            mode=mode,
            until=one_of(UniqueUntil, "until", self.until),
            window_ms=None if self.window is None else positive_seconds_to_ms(self.window, "window"),
        )

    def at_most_ms(self) -> int | None:
        """Answer how long a job is put off at the longest."""
        return None if self.at_most is None else positive_seconds_to_ms(self.at_most, "at_most")


@dataclass(frozen=True, slots=True, kw_only=True)
class Maker:
    """A function of the user's that makes an id or a key, and what it takes."""

    function: Callable[..., str]
    option: str  # "id" or "unique": how messages name it
    names: tuple[str, ...]  # of the task's arguments
    takes_rest: bool

    @classmethod
    def of(cls, function: Callable[..., str], option: str, parameters: inspect.Signature) -> Maker:
        """Answer the maker. Raises: InvalidSetting for one that the task's arguments cannot be given to."""
        if inspect.iscoroutinefunction(function):
            raise InvalidSetting(
                f"{option}={_called(function)} is asynchronous; it is called while a call is made"
            )
        try:
            taken = inspect.signature(function).parameters.values()
        except (TypeError, ValueError) as error:
            raise InvalidSetting(
                f"{option}={_called(function)} does not tell what it takes; say {option}=lambda name: ..."
            ) from error
        by_name = [each for each in taken if each.kind in _BY_NAME]
        names = tuple(each.name for each in by_name if each.name in parameters.parameters)
        for each in taken:
            is_optional = each.kind is _NAMED_REST or (each in by_name and each.default is not each.empty)
            if each.name not in names and not is_optional:
                raise InvalidSetting(
                    f"{option}={_called(function)} takes {each.name!r}, which is no argument of the "
                    f"task that a name can give; the task has: {', '.join(parameters.parameters) or 'none'}"
                )
        takes_rest = any(each.kind is _NAMED_REST for each in taken)
        return cls(function=function, option=option, names=names, takes_rest=takes_rest)

    def made(self, task: str, arguments: Mapping[str, Any]) -> str:
        """Answer what the function makes of the arguments. Raises: KeyFailed."""
        chosen = arguments if self.takes_rest else {name: arguments[name] for name in self.names}
        try:
            text: object = self.function(**chosen)
        except Exception as error:  # a function of the user's; what it raised may show a secret argument
            raise KeyFailed(
                f"task {shown(task)}: {self.option}={_called(self.function)} raised {type(error).__name__}; "
                "nothing was enqueued"
            ) from error
        if isinstance(text, str):
            return text
        if inspect.iscoroutine(text):
            text.close()  # of a function that did not say it was asynchronous; nobody will await it
        raise KeyFailed(
            f"task {shown(task)}: {self.option}={_called(self.function)} made a {type(text).__name__}, "
            "which is no text; nothing was enqueued"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """How the jobs of a task are named. `key` is the unique key, or what makes it; None: derived."""

    id: str | Maker | None = None  # None: a fresh one for each
    unique: Unique | None = None
    key: str | Maker | None = None

    @property
    def at_most_ms(self) -> int | None:
        """How long what is debounced is put off at the longest."""
        return None if self.unique is None else self.unique.at_most_ms()

    @property
    def first_delay(self) -> Seconds:
        """How long a job waits that nobody gave a delay: what is debounced, its quiet time; else nothing."""
        is_debounced = self.unique is not None and self.unique.mode == UniqueMode.DEBOUNCE
        window = None if self.unique is None else self.unique.window
        return window if is_debounced and window is not None else 0

    @property
    def is_fresh(self) -> bool:
        """Whether each call makes an id that nobody else can know."""
        return self.id is None

    def names(
        self, task: str, signature: Signature, payload: bytes
    ) -> tuple[str | None, StoredUnique | None]:
        """Answer id and unique key of one call; no id: a fresh one.

        Raises: KeyFailed, InvalidName; InvalidSetting for a key that would be derived from a secret.
        """
        given, whole = _arguments(signature, payload) if self._looks_at_arguments else ({}, {})
        id_ = self.id.made(task, whole) if isinstance(self.id, Maker) else self.id
        if id_ is not None:
            check_job_id(id_)
        if self.unique is None:
            return id_, None
        match self.key:
            case None:
                _check_open(task, signature)
                key = derived_key(task, signature, given)
            case Maker():
                key = self.key.made(task, whole)
            case _:
                key = self.key
        return id_, self.unique.stored(key)

    @property
    def _looks_at_arguments(self) -> bool:
        return isinstance(self.id, Maker) or (self.unique is not None and not isinstance(self.key, str))


def checked_naming(options: Mapping[str, Any], default: Naming, parameters: inspect.Signature) -> Naming:
    """Answer the naming that the options ask for, in place of the default.

    Args:
        options: `id` and `unique` as they were given.
        parameters: of the task's function, without its context.

    Raises: InvalidSetting, InvalidJobId, InvalidName.
    """
    id_ = _checked_id(options["id"], parameters) if "id" in options else default.id
    if "unique" not in options:
        return Naming(id=id_, unique=default.unique, key=default.key)
    unique = _checked_unique(options["unique"])
    key = None if unique is None else unique.key
    if callable(key):
        return Naming(id=id_, unique=unique, key=Maker.of(key, "unique", parameters))
    return Naming(id=id_, unique=unique, key=key)


def _check_open(task: str, signature: Signature) -> None:
    if signature.parameters.has_secrets:  # a short secret could be found by trying: the key is shown to all
        raise InvalidSetting(
            f"task {shown(task)} has secret arguments, which a key derived from them would give away; "
            "make it from the others: unique=lambda name: ..."
        )


def _checked_id(given: object, parameters: inspect.Signature) -> str | Maker | None:
    if given is None:
        return None
    if callable(given):
        return Maker.of(given, "id", parameters)
    return check_job_id(given)  # type: ignore[arg-type]  # that it may be no text is what is checked


def _checked_unique(given: object) -> Unique | None:
    if given is None or isinstance(given, Unique):
        return given
    if isinstance(given, str) or callable(given):
        return Unique(key=given)
    raise InvalidSetting(
        f"unique={given!r} is neither a text nor a leasemq.Unique, nor a function that makes a text"
    )


def _arguments(signature: Signature, payload: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Answer the arguments by parameter as the function will get them: those given, and all of them."""
    args, kwargs = signature.decode_arguments(payload)
    bound = signature.parameters.bindable.bind(*args, **kwargs)
    given = dict(bound.arguments)
    bound.apply_defaults()
    return given, dict(bound.arguments)


def _called(function: Callable[..., Any]) -> str:
    return shown(getattr(function, "__qualname__", None) or repr(function), 60)
