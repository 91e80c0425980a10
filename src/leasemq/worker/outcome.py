"""What a function came to → what happened to its attempt. The one judge, in the worker and in its children.

Plain values in and out: nothing here knows where the function ran, or whether its attempt still counts.
"""

from __future__ import annotations

from typing import Any

from leasemq.errors import (
    ArgumentMismatch,
    CorruptRecord,
    Dead,
    InvalidDelay,
    LeaseMQError,
    ResultNotSerializable,
    ResultTooLarge,
    RetryAfter,
    Snooze,
    UnknownEnvelope,
)
from leasemq.protocol.decide import Happened, Hopeless, Raised, Reason, Returned, Snoozed, Unfit
from leasemq.protocol.declared import NOTHING_DECLARED, DeclaredErrors
from leasemq.protocol.failure import encode_error, qualified_name
from leasemq.protocol.retry import Retry, should_retry
from leasemq.protocol.signature import Signature
from leasemq.protocol.times import seconds_to_ms

_HOPELESS: dict[type[LeaseMQError], Reason] = {
    Dead: Reason.DEAD,
    ResultNotSerializable: Reason.RESULT_NOT_SERIALIZABLE,  # of a value given to `ctx.complete`
    ResultTooLarge: Reason.RESULT_TOO_LARGE,
}
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def read_arguments(
    signature: Signature, payload: bytes, retry: Retry | None, *, job: str
) -> Arguments | Happened:
    """Answer what to call the function with, or why it cannot be called."""
    try:
        return signature.decode_arguments(payload, job=job)
    except ArgumentMismatch as error:
        return raised(error, retry)
    except CorruptRecord as error:
        return unreadable(error)


def unreadable(error: CorruptRecord) -> Happened:
    """Answer what stored bytes mean that cannot be read: a newer worker may, or nobody ever will."""
    if isinstance(error, UnknownEnvelope):
        return Unfit()
    return Hopeless(error=told(error), reason=Reason.CORRUPT)


def judged(
    error: BaseException,
    retry: Retry | None,
    hide: tuple[str, ...] = (),
    raises: DeclaredErrors = NOTHING_DECLARED,
) -> Happened:
    """Answer what an exception out of the function means. The texts in `hide` are masked."""
    kind = type(error)  # not isinstance: that asks the exception's own __class__, which may raise
    try:
        if issubclass(kind, Snooze):
            return Snoozed(delay_ms=_delay_ms(error))
        if issubclass(kind, RetryAfter):
            return Raised(error=told(error, hide, raises), after_ms=_delay_ms(error))
    except InvalidDelay as refusal:
        return raised(refusal, retry)
    for refused, reason in _HOPELESS.items():
        if issubclass(kind, refused):
            return Hopeless(error=told(error, hide, raises), reason=reason)
    return raised(error, retry, hide=hide, raises=raises)


def _delay_ms(error: BaseException) -> int:
    """Answer the delay that a verdict asks for. Raises: InvalidDelay, also if it has none."""
    try:
        delay: Any = error.delay  # type: ignore[attr-defined]  # its class was looked at by the caller
    except BaseException as missing:  # code of the user's class ran, or its __init__ set no delay
        name = qualified_name(type(error))
        raise InvalidDelay(
            f"{name} has no delay; let its __init__ call super().__init__(delay) with seconds or a timedelta"
        ) from missing
    return seconds_to_ms(delay)


def raised(
    error: BaseException,
    retry: Retry | None,
    *,
    reason: Reason = Reason.ERROR,
    hide: tuple[str, ...] = (),
    raises: DeclaredErrors = NOTHING_DECLARED,
) -> Raised:
    """Answer an ordinary failure; the policy's rules by exception class are looked at here."""
    retryable = retry is not None and should_retry(retry, error)
    return Raised(error=told(error, hide, raises), retryable=retryable, reason=reason)


def returned(signature: Signature, value: object, limit_bytes: int) -> Happened:
    """Answer what a returned value means: it is stored, unless it is too large or no plain data."""
    try:
        return Returned(result=signature.encode_result(value, limit_bytes))
    except ResultTooLarge as error:
        return Hopeless(error=told(error), reason=Reason.RESULT_TOO_LARGE)
    except Exception as error:  # a result's own methods run while it is read: they may raise anything
        return Hopeless(error=told(error), reason=Reason.RESULT_NOT_SERIALIZABLE)


def told(
    error: BaseException, hide: tuple[str, ...] = (), raises: DeclaredErrors = NOTHING_DECLARED
) -> bytes:
    """Answer the stored form of an exception."""
    return encode_error(raises.describe(error, hide))
