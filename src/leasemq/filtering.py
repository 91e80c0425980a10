"""How jobs are chosen: filters and lists of ids from what a caller gave, refused where they make no sense."""

from __future__ import annotations

from collections.abc import Iterable

from leasemq.errors import InvalidSetting
from leasemq.protocol.insight import Filter
from leasemq.protocol.model import State
from leasemq.protocol.names import check_queue, check_task_name
from leasemq.protocol.times import seconds_to_ms
from leasemq.settings import Seconds


def made_filter(
    states: Iterable[State | str],
    task: str | None,
    id_prefix: str | None,
    older_than: Seconds | None,
    newer_than: Seconds | None,
    reason: str | None,
) -> Filter:
    """Answer the filter of what a caller gave. Raises: InvalidSetting, InvalidName, InvalidDelay."""
    return Filter(
        states=check_states(states),
        task=None if task is None else check_task_name(task),
        id_prefix=id_prefix or None,
        older_than_ms=None if older_than is None else seconds_to_ms(older_than, "older_than"),
        newer_than_ms=None if newer_than is None else seconds_to_ms(newer_than, "newer_than"),
        reason=reason or None,
    )


def check_states_among(
    given: Iterable[State | str], allowed: frozenset[State], verb: str
) -> frozenset[State]:
    """Answer the states. Raises: InvalidSetting for none, or one that the verb does not touch."""
    chosen = check_states(given)
    if not chosen or not chosen <= allowed:
        said = ", ".join(sorted(chosen - allowed)) or "none"
        raise InvalidSetting(f"{verb} takes the states {', '.join(sorted(allowed))}, not {said}")
    return chosen


def check_states(given: Iterable[State | str]) -> frozenset[State]:
    """Answer the states; one alone may be given as it is. Raises: InvalidSetting."""
    names = [given] if isinstance(given, str) else list(given)
    known = {state.value for state in State}
    for name in names:
        if name not in known:
            raise InvalidSetting(f"state {name!r} is not one of {', '.join(State)}")
    return frozenset(State(name) for name in names)


def check_queues(given: Iterable[str]) -> tuple[str, ...]:
    """Answer the names. Raises: InvalidQueueName; InvalidSetting for a text, whose letters would be taken."""
    if isinstance(given, str | bytes):
        raise InvalidSetting(f"queues={given!r} is one text; give a list: [{given!r}]")
    return tuple(map(check_queue, given))


def check_limit_of_jobs(limit: int | None) -> int | None:
    """Answer how many jobs at most. Raises: InvalidSetting."""
    if limit is not None and (type(limit) is not int or limit < 0):
        raise InvalidSetting(f"limit={limit!r} is not a whole number from 0 on; None means all")
    return limit


def check_ids_given(ids: Iterable[str]) -> Iterable[str]:
    """Answer the ids. Raises: InvalidSetting for a text, whose letters would be taken for ids."""
    if isinstance(ids, str | bytes):
        raise InvalidSetting(f"ids={ids!r} is one text; give a list: [{ids!r}]")
    return ids
