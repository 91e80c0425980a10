"""Values declared secret are stored for the handler and shown to nobody."""

from __future__ import annotations

import sys
import traceback
import typing
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, NewType

import pytest

from leasemq.errors import (
    ArgumentMismatch,
    LeaseMQError,
    PayloadRejected,
    ResultMismatch,
    ResultNotSerializable,
)
from leasemq.protocol.envelope import describe, describe_result
from leasemq.protocol.failure import describe_exception
from leasemq.protocol.shape import Secret
from tests.protocol.values import signature

CANARY = "hunter2-canary"


@dataclass
class Card:
    """A secret inside a dataclass hides the whole argument."""

    number: Annotated[str, Secret]
    name: str


class Mode(Enum):
    """An enum, whose refusals quote the value."""

    ON = "on"


def login(user: str, password: Annotated[str, Secret], *, pin: Annotated[int, Secret()] = 0) -> None: ...


def pay(card: Card, cards: list[Card] | None = None) -> None: ...


def placed(
    user: str,
    password: Annotated[str, Secret],
    /,
    *more: Annotated[str, Secret],
    **named: Annotated[str, Secret],
) -> None: ...


def mode(mode: Annotated[Mode, Secret]) -> None: ...


def mapping(values: Annotated[dict[str, int], Secret]) -> None: ...


def token() -> Annotated[str, Secret]: ...  # type: ignore[empty-body]  # only its annotations are looked at


def everything_said(error: BaseException) -> str:
    """The error as any log could show it."""
    return (
        "".join(traceback.format_exception(error))
        + repr(error)
        + repr(error.__context__)
        + repr(error.__cause__)
    )


@pytest.mark.promise("P-102")
@pytest.mark.parametrize(
    ("function", "args", "kwargs", "shown"),
    [
        (login, ("ada", CANARY), {}, {"args": [], "kwargs": {"user": "ada", "password": "***"}}),
        (
            login,
            ("ada", CANARY),
            {"pin": 7},
            {"args": [], "kwargs": {"user": "ada", "password": "***", "pin": "***"}},
        ),
        (pay, (Card(CANARY, "Ada"),), {}, {"args": [], "kwargs": {"card": "***"}}),
        (
            pay,
            (Card(CANARY, "Ada"), [Card(CANARY, "B")]),
            {},
            {"args": [], "kwargs": {"card": "***", "cards": "***"}},
        ),
        (
            placed,
            ("ada", CANARY, CANARY),
            {"x": CANARY},
            {"args": ["ada", "***", "***"], "kwargs": {"x": "***"}},
        ),
    ],
)
def test_a_secret_argument_reaches_the_handler_and_no_display(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], shown: dict[str, Any]
) -> None:
    found = signature(function)
    payload = found.encode_arguments(args, kwargs)

    assert describe(payload) == {"schema": found.schema_id, **shown}
    assert CANARY in repr(found.decode_arguments(payload))


@pytest.mark.promise("P-102")
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (login, ("ada", [CANARY])),
        (login, ("ada", CANARY + "\ud83d")),
        (login, ("ada", CANARY, CANARY)),
        (login, (CANARY.encode(), "x", "y")),
        (pay, (Card([CANARY], "Ada"),)),  # type: ignore[arg-type]  # the mistake under test
        (pay, ({"number": CANARY},)),
        (placed, ("ada", CANARY, [CANARY])),
        (mode, (CANARY,)),
        (mapping, ({CANARY: "x"},)),
        (mapping, ({CANARY: 2**64},)),
    ],
)
def test_a_refused_secret_is_not_in_the_error(function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    with pytest.raises(PayloadRejected) as refused:
        signature(function).encode_arguments(args, {})

    assert CANARY not in everything_said(refused.value)


@pytest.mark.promise("P-102", "P-28")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (lambda mode: None, mode),
        (lambda password: None, login),
        (lambda values: None, mapping),
    ],
)
def test_a_stored_secret_that_does_not_fit_is_not_in_the_error(
    old: Callable[..., Any], new: Callable[..., Any]
) -> None:
    payload = signature(old).encode_arguments(({CANARY: CANARY} if new is mapping else CANARY,), {})

    with pytest.raises(ArgumentMismatch) as raised:
        signature(new).decode_arguments(payload)

    assert CANARY not in everything_said(raised.value)


@pytest.mark.promise("P-102")
def test_a_secret_result_is_read_by_its_waiter_and_shown_to_nobody() -> None:
    found = signature(token)
    payload = found.encode_result(CANARY)

    assert found.decode_result(payload) == CANARY
    assert describe_result(payload) == "***"
    assert describe_result(signature(login).encode_result(None)) is None


@pytest.mark.promise("P-102", "P-26")
def test_a_secret_result_that_does_not_fit_is_not_in_the_error() -> None:
    def plain() -> Any: ...

    errors: list[LeaseMQError] = []
    for value in ([CANARY], CANARY + "\ud83d"):
        with pytest.raises(ResultNotSerializable) as refused:
            signature(token).encode_result(value)
        errors.append(refused.value)
    with pytest.raises(ResultMismatch) as mismatch:
        signature(token).decode_result(signature(plain).encode_result({CANARY: 1}))

    assert CANARY not in "".join(map(everything_said, [*errors, mismatch.value]))


@pytest.mark.promise("P-102")
def test_what_a_handler_says_about_its_secrets_is_masked() -> None:
    found = signature(placed)
    args, kwargs = found.decode_arguments(
        found.encode_arguments(("ada", CANARY, "it's"), {"x": "named-secret"})
    )

    error = ValueError(f"cannot log in ada with {CANARY}, {args!r}, {kwargs}")
    record = describe_exception(error, hide=found.secret_texts(args, kwargs))

    assert record.message.startswith("cannot log in ada with ***, ('ada', '***', ")
    for secret in (CANARY, "it's", "named-secret"):
        assert secret not in record.message + record.traceback


@pytest.mark.promise("P-102")
def test_texts_deep_inside_secret_arguments_are_found() -> None:
    found = signature(pay)
    args, kwargs = found.decode_arguments(
        found.encode_arguments((Card("4111", "Ada"), [Card("4222", "B")]), {})
    )

    assert set(found.secret_texts(args, kwargs)) >= {"4111", "4222"}
    assert signature(lambda a: a).secret_texts(("x",), {}) == ()
    assert signature(login).secret_texts((), {"user": "ada", "password": "p", "pin": 1234}) == ("p", "1234")
    assert signature(login).secret_texts((), {"password": "p", "pin": 7}) == ("p",)


@pytest.mark.promise("P-102")
def test_a_secret_behind_another_name_for_its_type_is_still_secret() -> None:
    password = NewType("password", Annotated[str, Secret])  # type: ignore[valid-newtype]  # at run time it is one
    aliases: list[Any] = [password, list[password], dict[str, password | None]]
    if sys.version_info >= (3, 12):
        aliases.append(typing.TypeAliasType("Password", Annotated[str, Secret]))

    def task(value: Any) -> None: ...

    for alias in aliases:
        task.__annotations__ = {"value": alias}
        assert signature(task).parameters.has_secrets
