"""When a failed attempt is tried again: (policy, failures, dice) -> delay.

The decision reads only counters that are stored with the job, never what a worker remembers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Literal, TypeVar, assert_never

from leasemq.errors import CorruptRecord, InvalidSetting, LeaseMQError, UnknownEnvelope
from leasemq.protocol.names import shown_value
from leasemq.protocol.times import MAX_DURATION_MS, seconds_to_ms

MAX_DELAYS = 1_000
_POLICY_VERSION = 1

Exceptions = type[BaseException] | tuple[type[BaseException], ...]
_Closed = TypeVar("_Closed", bound=StrEnum)


class Backoff(StrEnum):
    """How the delay grows with each failure."""

    CONSTANT = "constant"  # base, base, base
    LINEAR = "linear"  # base, 2 base, 3 base
    EXPONENTIAL = "exponential"  # base, base × factor, base × factor²


class Jitter(StrEnum):
    """Whether the delay is spread, so that jobs which failed together do not return together."""

    FULL = "full"  # anything from 0 to the computed delay, evenly
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, when and for which exceptions a failed job runs again.

    A job that always fails runs `max_retries` + 1 times; None means for ever. Times are seconds or
    timedelta. No delay is longer than `cap` (default one hour; None: the 100 years that LeaseMQ
    accepts anywhere). An explicit list in `delays` replaces backoff, base and factor; its last entry
    repeats. `give_up_on` wins over `retry_on`. An exception group is given up on if it or anything in
    it is, and otherwise retried if it is, or all that it holds is, named by `retry_on`.

    Raises: InvalidSetting, naming the field and the value.
    """

    max_retries: int | None = 5
    _: KW_ONLY
    backoff: Backoff | Literal["constant", "linear", "exponential"] = Backoff.EXPONENTIAL
    base: float | timedelta = 1
    factor: float = 2
    cap: float | timedelta | None = 3_600
    delays: Sequence[float | timedelta] | None = None
    jitter: Jitter | Literal["full", "none"] = Jitter.FULL
    retry_on: Exceptions | None = None
    give_up_on: Exceptions = ()

    def __post_init__(self) -> None:
        _check_count(self.max_retries)
        _check_factor(self.factor)
        self._keep("backoff", _one_of(Backoff, "backoff", self.backoff))
        self._keep("jitter", _one_of(Jitter, "jitter", self.jitter))
        _setting_ms("base", self.base)
        if self.cap is not None:
            _setting_ms("cap", self.cap)
        if self.delays is not None:
            self._keep("delays", _checked_delays(self.delays))
        if self.retry_on is not None:
            self._keep("retry_on", _exception_types("retry_on", self.retry_on))
        self._keep("give_up_on", _exception_types("give_up_on", self.give_up_on))
        if self.retry_on == ():
            raise InvalidSetting("retry_on=() would retry nothing; leave it out, or say max_retries=0")

    def _keep(self, field: str, value: object) -> None:
        object.__setattr__(self, field, value)  # frozen: a list given by the caller could change later


def delay_ms(policy: Retry, failures: int, dice: float) -> int | None:
    """Answer how long after its newest failure the job runs again; None: the budget is spent.

    Args:
        policy: the job's policy.
        failures: handler errors so far, the newest included; at least 1.
        dice: evenly spread in [0, 1).
    """
    if policy.max_retries is not None and failures > policy.max_retries:
        return None
    whole_ms = min(_undecided_ms(policy, failures), _ceiling_ms(policy))
    return whole_ms if policy.jitter == Jitter.NONE else int(dice * (whole_ms + 1))


def should_retry(policy: Retry, error: BaseException) -> bool:
    """Answer whether the policy's rules let this exception be retried; the budget is not looked at."""
    # type(...), not isinstance: an exception may lie about its __class__.
    kinds = [type(one) for one in _with_parts(error)]
    if any(issubclass(kind, policy.give_up_on) for kind in kinds):
        return False
    if policy.retry_on is None or issubclass(kinds[0], policy.retry_on):
        return True
    leaves = [kind for kind in kinds if not issubclass(kind, BaseExceptionGroup)]
    return all(issubclass(kind, policy.retry_on) for kind in leaves)


def to_plain(policy: Retry) -> dict[str, object]:
    """Answer the policy as plain data, for a job that carries its own; times in milliseconds.

    Raises: InvalidSetting for rules by exception class: nothing stored may name code.
    """
    for field in ("retry_on", "give_up_on"):
        if getattr(policy, field):
            raise InvalidSetting(
                f"{field} names exception classes, which cannot be stored with a job; set it on the task"
            )
    plain: dict[str, object] = {
        "v": _POLICY_VERSION,
        "max_retries": policy.max_retries,
        "backoff": str(policy.backoff),
        "base_ms": _setting_ms("base", policy.base),
        "factor": policy.factor,
        "cap_ms": None if policy.cap is None else _setting_ms("cap", policy.cap),
        "jitter": str(policy.jitter),
    }
    if policy.delays is not None:
        plain["delays_ms"] = [_setting_ms("delays", delay) for delay in policy.delays]
    return plain


def from_plain(plain: object) -> Retry:
    """Answer the policy that `to_plain` gave. Raises: UnknownEnvelope (newer version), CorruptRecord."""
    if not isinstance(plain, Mapping):
        raise CorruptRecord(f"a stored retry policy is a {type(plain).__name__}, not an object")
    version = plain.get("v")
    if type(version) is not int:
        raise CorruptRecord("a stored retry policy has no version")
    if version > _POLICY_VERSION:
        raise UnknownEnvelope(f"the retry policy has version {version}; upgrade this worker", version=version)
    fields = {"v", "max_retries", "backoff", "base_ms", "factor", "cap_ms", "jitter"}
    if version != _POLICY_VERSION or not fields <= plain.keys() <= fields | {"delays_ms"}:
        raise CorruptRecord("a stored retry policy lacks fields, or has fields that this version never wrote")
    try:
        delays = plain.get("delays_ms")
        return Retry(
            plain["max_retries"],
            backoff=plain["backoff"],
            base=timedelta(milliseconds=plain["base_ms"]),
            factor=plain["factor"],
            cap=None if plain["cap_ms"] is None else timedelta(milliseconds=plain["cap_ms"]),
            delays=None if delays is None else [timedelta(milliseconds=delay) for delay in delays],
            jitter=plain["jitter"],
        )
    except (LeaseMQError, TypeError, ValueError, OverflowError) as error:
        raise CorruptRecord(f"a stored retry policy does not hold: {error}") from error


def _ceiling_ms(policy: Retry) -> int:
    return MAX_DURATION_MS if policy.cap is None else _setting_ms("cap", policy.cap)


def _undecided_ms(policy: Retry, failures: int) -> int:
    """Answer the delay before cap and jitter, itself never over the documented maximum."""
    if policy.delays is not None:
        return _setting_ms("delays", policy.delays[min(failures, len(policy.delays)) - 1])
    base_ms = _setting_ms("base", policy.base)
    backoff = Backoff(policy.backoff)
    match backoff:
        case Backoff.CONSTANT:
            return base_ms
        case Backoff.LINEAR:
            return min(base_ms * failures, MAX_DURATION_MS)
        case Backoff.EXPONENTIAL:
            return _exponential_ms(base_ms, policy.factor, failures - 1)
        case _:
            assert_never(backoff)


def _exponential_ms(base_ms: int, factor: float, exponent: int) -> int:
    if base_ms == 0 or factor == 1:
        return base_ms
    # Past this exponent the power is over the maximum anyway, and past 2**1024 float power overflows.
    last_exponent = math.log(MAX_DURATION_MS / base_ms) / math.log(factor) + 1
    if exponent > last_exponent:
        return MAX_DURATION_MS
    return min(round(base_ms * factor**exponent), MAX_DURATION_MS)


def _with_parts(error: BaseException) -> Iterator[BaseException]:
    pending = [error]
    while pending:
        one = pending.pop()
        yield one
        if issubclass(type(one), BaseExceptionGroup):
            pending.extend(BaseExceptionGroup.exceptions.__get__(one))  # not what a subclass calls so


def _setting_ms(field: str, value: float | timedelta) -> int:
    try:
        return seconds_to_ms(value, field)
    except ValueError as error:
        raise InvalidSetting(str(error)) from error


def _check_count(max_retries: int | None) -> None:
    if max_retries is None:
        return
    if type(max_retries) is not int or max_retries < 0:
        raise InvalidSetting(
            f"max_retries={shown_value(max_retries)} is not a whole number from 0 up; None means no limit"
        )


def _check_factor(factor: object) -> None:
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 1_000:
        raise InvalidSetting(f"factor={shown_value(factor)} is not a number from 1 to 1000")


def _one_of(choices: type[_Closed], field: str, value: str) -> _Closed:
    try:
        return choices(value)
    except ValueError:
        allowed = ", ".join(repr(str(choice)) for choice in choices)
        raise InvalidSetting(f"{field}={shown_value(value)} is not one of {allowed}") from None


def _checked_delays(delays: object) -> tuple[float | timedelta, ...]:
    if not isinstance(delays, Sequence) or isinstance(delays, str | bytes):
        raise InvalidSetting(f"delays={shown_value(delays)} is not a list of seconds or timedeltas")
    if not 1 <= len(delays) <= MAX_DELAYS:
        raise InvalidSetting(f"delays has {len(delays)} entries; it needs 1 to {MAX_DELAYS}")
    for position, delay in enumerate(delays):
        _setting_ms(f"delays[{position}]", delay)
    return tuple(delays)


def _exception_types(field: str, given: object) -> tuple[type[BaseException], ...]:
    types = given if isinstance(given, tuple) else (given,)
    for one in types:
        if not (isinstance(one, type) and issubclass(one, BaseException)):
            raise InvalidSetting(f"{field}={shown_value(given)} is not an exception class or a tuple of them")
    return types
