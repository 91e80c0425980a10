"""An app's settings: what each means, where it comes from, and which values are allowed.

The order is arguments, `LEASEMQ_*` in the environment, `[tool.leasemq]` in the nearest pyproject.toml,
defaults. Times are seconds or timedelta here, milliseconds everywhere below.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypedDict

from leasemq.errors import InvalidDelay, InvalidName, InvalidSetting
from leasemq.protocol.envelope import DEFAULT_LIMIT_BYTES, HARD_LIMIT_BYTES
from leasemq.protocol.insight import EVENT_AGE_MS, MAX_NEWEST, RECORD_LIMIT, Durability
from leasemq.protocol.model import DAY_MS, Keep
from leasemq.protocol.names import check_namespace, check_queue, mask_url, shown
from leasemq.protocol.times import positive_seconds_to_ms, seconds_to_ms

PREFIX = "LEASEMQ_"
DEFAULT_QUEUE = "default"
MAX_CONCURRENCY = 1_000

Seconds = float | timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What an app and its workers go by, checked; times in milliseconds."""

    url: str | None = None
    namespace: str | None = None
    app: str | None = None  # module:attribute, for the command line
    queues: tuple[str, ...] | None = None  # a worker's; None: those of the app's tasks
    concurrency: int = 10
    lease_ms: int = 30_000
    drain_ms: int = 30_000
    payload_limit: int = DEFAULT_LIMIT_BYTES
    result_limit: int = DEFAULT_LIMIT_BYTES
    keep_result_ms: int = DAY_MS
    keep_record_ms: int | None = None  # None: a day longer than the result
    keep_dead_ms: int = 30 * DAY_MS
    keep_events_ms: int = EVENT_AGE_MS
    keep_newest: int = RECORD_LIMIT  # of each queue and outcome, whatever their age
    require_durability: Durability | None = None

    @property
    def keep(self) -> Keep:
        """How long records stay, unless a task or a job says otherwise."""
        return kept(self.keep_result_ms, self.keep_record_ms, self.keep_dead_ms)


def kept(result_ms: int, record_ms: int | None, dead_ms: int) -> Keep:
    """Answer the retention; a record outlives its result by a day unless it is told otherwise."""
    record_ms = result_ms + DAY_MS if record_ms is None else record_ms
    return Keep(result_ms=result_ms, record_ms=record_ms, dead_ms=dead_ms)


class SettingArguments(TypedDict, total=False):
    """What `App(...)` takes by name; each is also a `LEASEMQ_*` variable and a key of `[tool.leasemq]`."""

    namespace: str
    queues: Sequence[str]
    concurrency: int
    lease: Seconds
    drain: Seconds
    payload_limit: int
    result_limit: int
    keep_result: Seconds
    keep_record: Seconds
    keep_dead: Seconds
    keep_events: Seconds
    keep_newest: int
    require_durability: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One setting as `leasemq config` shows it: name, value without passwords, and where it is from."""

    name: str
    value: object
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """`[tool.leasemq]` as it stands, the file it is from, and the folder it was looked for from."""

    path: str = "pyproject.toml"
    table: Mapping[str, object] = field(default_factory=dict)
    folder: Path | None = None  # relative paths count from here, wherever the process goes later


def working_folder() -> Path | None:
    """Answer the folder the process is in; None if it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        return None


def read_project(folder: Path | None = None) -> Project:
    """Answer `[tool.leasemq]` of the nearest pyproject.toml, from `folder` (or here) upwards; empty if none.

    Raises: InvalidSetting for a file that cannot be read, or a key that is no setting.
    """
    folder = working_folder() if folder is None else folder
    if folder is None:
        return Project()
    for place in (folder, *folder.parents):
        path = place / "pyproject.toml"
        if path.is_file():
            return Project(path=str(path), table=_table_of(path), folder=folder)
    return Project(folder=folder)


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Answer the variables that look like settings and are none. They are not refused: a container
    platform makes such names of its own for a service that is called leasemq."""
    known = {f"{PREFIX}{name.upper()}" for name in _READERS}
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in known)


def find_settings(
    arguments: Mapping[str, object], project: Project, environment: Mapping[str, str] | None = None
) -> tuple[Settings, list[Origin]]:
    """Answer the settings that hold, and where each comes from.

    Args:
        arguments: by public name (`lease`, not `lease_ms`); None means not given.
        environment: of the process, if not given.

    Raises: InvalidSetting or InvalidName, naming the setting, its source and its value.
    """
    environment = os.environ if environment is None else environment
    table = project.table
    chosen: dict[str, Any] = {}
    origins: list[Origin] = []
    for name, (attribute, read) in _READERS.items():
        variable = f"{PREFIX}{name.upper()}"
        if arguments.get(name) is not None:
            raw, source = arguments[name], "argument"
        elif environment.get(variable):
            raw, source = environment[variable], variable
        elif name in table:
            raw, source = table[name], project.path
        else:
            origins.append(Origin(name=name, value=_shown(name, _DEFAULTS[attribute]), source="default"))
            continue
        chosen[attribute] = _checked(name, raw, source, read)
        origins.append(Origin(name=name, value=_shown(name, chosen[attribute]), source=source))
    return Settings(**chosen), origins


def _checked(name: str, raw: object, source: str, read: Callable[[object], object]) -> object:
    try:
        return read(raw)
    except (InvalidSetting, InvalidName, InvalidDelay) as error:
        if source == "argument":
            raise
        raise InvalidSetting(f"{source}: {error}") from error


def _table_of(path: Path) -> Mapping[str, object]:
    import tomllib

    try:
        tool = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {})
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidSetting(f"{path} cannot be read: {error}") from error
    table = tool.get("leasemq", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise InvalidSetting(f"{path}: [tool.leasemq] is not a table")
    if unknown := table.keys() - _READERS.keys():
        raise InvalidSetting(
            f"{path}: [tool.leasemq] has {shown(min(unknown))!r}, which is no setting; "
            f"known are {', '.join(_READERS)}"
        )
    return table


def _text(name: str, raw: object) -> str:
    if isinstance(raw, str) and raw:
        return raw
    raise InvalidSetting(f"{name}={raw!r} is not a text")


def _namespace(raw: object) -> str:
    return check_namespace(_text("namespace", raw))


def _queues(raw: object) -> tuple[str, ...]:
    names = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(names, list | tuple) or not names:
        raise InvalidSetting(f"queues={raw!r} is not a list of queue names, nor names separated by commas")
    return tuple(check_queue(name.strip() if isinstance(name, str) else name) for name in names)


def _whole(name: str, low: int, high: int, raw: object) -> int:
    if isinstance(raw, str) and raw.strip().isascii() and raw.strip().isdigit():
        raw = int(raw)
    if type(raw) is not int or not low <= raw <= high:
        raise InvalidSetting(f"{name}={raw!r} is not a whole number from {low} to {high}")
    return raw


def _number(name: str, raw: object) -> float | timedelta:
    """Answer a duration as given, texts as numbers of seconds; its range is checked by the caller."""
    if isinstance(raw, str):
        try:
            return float(raw)
        except ValueError:
            raise InvalidSetting(f"{name}={raw!r} is not a number of seconds, such as 3600") from None
    if isinstance(raw, int | float | timedelta):
        return raw
    raise InvalidSetting(f"{name}={raw!r} is not a number of seconds, such as 3600")


def _positive(name: str, raw: object) -> int:
    return positive_seconds_to_ms(_number(name, raw), name)


def _from_zero(name: str, raw: object) -> int:
    return seconds_to_ms(_number(name, raw), name)


def _durability(raw: object) -> Durability:
    try:
        return Durability(str(raw))
    except ValueError:
        known = ", ".join(Durability)
        raise InvalidSetting(f"require_durability={raw!r} is not one of {known}") from None


def _shown(name: str, value: object) -> object:
    """Answer a value as people and JSON read it: passwords masked, seconds again."""
    if name == "url" and isinstance(value, str):
        return mask_url(value)
    if name in _TIMES and isinstance(value, int):
        return value / 1_000
    return list(value) if isinstance(value, tuple) else value


_TIMES = frozenset({"lease", "drain", "keep_result", "keep_record", "keep_dead", "keep_events"})
_READERS: Mapping[str, tuple[str, Callable[[object], object]]] = {
    "url": ("url", partial(_text, "url")),
    "namespace": ("namespace", _namespace),
    "app": ("app", partial(_text, "app")),
    "queues": ("queues", _queues),
    "concurrency": ("concurrency", partial(_whole, "concurrency", 1, MAX_CONCURRENCY)),
    "lease": ("lease_ms", partial(_positive, "lease")),
    "drain": ("drain_ms", partial(_from_zero, "drain")),
    "payload_limit": ("payload_limit", partial(_whole, "payload_limit", 1, HARD_LIMIT_BYTES)),
    "result_limit": ("result_limit", partial(_whole, "result_limit", 1, HARD_LIMIT_BYTES)),
    "keep_result": ("keep_result_ms", partial(_from_zero, "keep_result")),
    "keep_record": ("keep_record_ms", partial(_from_zero, "keep_record")),
    "keep_dead": ("keep_dead_ms", partial(_from_zero, "keep_dead")),
    "keep_events": ("keep_events_ms", partial(_positive, "keep_events")),
    "keep_newest": ("keep_newest", partial(_whole, "keep_newest", 1, MAX_NEWEST)),
    "require_durability": ("require_durability", _durability),
}
_DEFAULTS: Mapping[str, object] = {one.name: one.default for one in fields(Settings)}
