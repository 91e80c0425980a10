"""Declared errors: stored with what they were made from, made again, and never by looking up a name."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Any

import msgspec
import pytest

from leasemq.errors import CorruptRecord, Dead, InvalidSetting
from leasemq.protocol.declared import MAX_VALUES_BYTES, NOTHING_DECLARED, DeclaredErrors
from leasemq.protocol.failure import MAX_ERROR_BYTES, decode_error, encode_error
from leasemq.protocol.shape import Secret


class CardDeclined(Exception):
    """Keeps what it was made from under the parameters' names."""

    def __init__(self, code: str, amount: Decimal, *, retry_in: float | None = None) -> None:
        super().__init__(f"card declined: {code}")
        self.code = code
        self.amount = amount
        self.retry_in = retry_in


class StolenCard(CardDeclined):
    """Not declared itself."""


class Plain(Exception):
    """Made from whatever it is raised with."""


class ByPlace(Exception):
    """Keeps nothing but its args."""

    def __init__(self, code: str, amount: int) -> None:
        super().__init__(code, amount)


class Formats(Exception):
    """What it was made from cannot be told from what it says."""

    def __init__(self, code: str) -> None:
        super().__init__(f"declined: {code}")


@dataclass
class Limit(Exception):
    """Its fields are its parameters; it never calls super().__init__."""

    left: int
    names: list[str]


class Upstream(OSError):
    """Its own parameter hides behind an attribute that OSError has."""

    def __init__(self, filename: str) -> None:
        super().__init__(filename)


class Locked(Exception):
    """Two required arguments, one of them no data."""

    def __init__(self, name: str, lock: Any) -> None:
        super().__init__(name)
        self.name = name
        self.lock = lock


class GivesUp(Dead):
    """A verdict of the task's own."""

    def __init__(self, account: int) -> None:
        super().__init__(f"account {account} is closed")
        self.account = account


class Hostile(Exception):
    """Its attributes raise, and so does its constructor, the second time."""

    made = 0

    def __init__(self, one: int) -> None:
        super().__init__(one)
        Hostile.made += 1
        if Hostile.made > 1:
            raise KeyboardInterrupt

    @property
    def one(self) -> int:
        raise SystemExit(3)


class Card(Exception):
    """Has a secret of its own."""

    def __init__(self, number: Annotated[str, Secret]) -> None:
        super().__init__(f"no such card: {number}")
        self.number = number


KINDS = (CardDeclined, Plain, ByPlace, Formats, Limit, Upstream, Locked, GivesUp, Hostile, Card, KeyError)
DECLARED = DeclaredErrors.of(KINDS, task="pay")


def through_the_store(error: BaseException, hide: tuple[str, ...] = ()) -> Exception | None:
    """What a waiter gets of an error that a function raised."""
    return DECLARED.rebuilt(decode_error(encode_error(DECLARED.describe(error, hide))))


MADE: dict[str, Callable[[], Exception]] = {
    "by name": lambda: CardDeclined("51", Decimal("12.50"), retry_in=3),
    "args": lambda: Plain("a", 1, [True, None]),
    "no args": Plain,
    "by place": lambda: ByPlace("51", 7),
    "dataclass": lambda: Limit(left=3, names=["a"]),
    "dataclass by place": lambda: Limit(3, []),
    "hidden attribute": lambda: Upstream("log"),
    "verdict": lambda: GivesUp(account=7),
    "builtin": lambda: KeyError("name"),
}


@pytest.mark.promise("P-60", "E-2")
@pytest.mark.parametrize("make", MADE.values(), ids=MADE.keys())
def test_a_declared_error_comes_back_as_it_was(make: Callable[[], Exception]) -> None:
    error = make()

    again = through_the_store(error)

    assert type(again) is type(error)
    assert vars(again) == vars(error)
    assert str(again) == str(error) or not str(error)  # a dataclass made by name had no args at all


@pytest.mark.promise("P-60", "E-2")
def test_values_come_back_as_their_declared_types() -> None:
    again = through_the_store(CardDeclined("51", Decimal("12.50"), retry_in=3))

    assert isinstance(again, CardDeclined)
    assert (again.amount, type(again.amount)) == (Decimal("12.50"), Decimal)
    assert type(again.retry_in) is float


@pytest.mark.promise("E-2")
def test_of_a_subclass_the_nearest_declared_class_comes_back_and_its_own_name_stays() -> None:
    record = DECLARED.describe(StolenCard("43", Decimal(1)))

    again = DECLARED.rebuilt(record)

    assert record.type.endswith("StolenCard")
    assert type(again) is CardDeclined
    assert again.code == "43"


@pytest.mark.promise("P-60", "E-2", "B38")
@pytest.mark.parametrize(
    "error",
    [
        ValueError("undeclared"),
        Formats("51"),
        Locked("a", threading.Lock()),
        Hostile(1),
        Plain(object()),
        Plain("x" * (MAX_VALUES_BYTES + 1)),
        Plain("lone \ud800"),
        Limit(left="three", names=[]),  # type: ignore[arg-type]  # what a handler may do all the same
        KeyboardInterrupt(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_whose_values_cannot_be_stored_is_told_like_any_other(error: BaseException) -> None:
    record = DECLARED.describe(error)

    assert (record.declared, record.values) == ("", b"")
    assert record.type.endswith(type(error).__name__)
    assert DECLARED.rebuilt(decode_error(encode_error(record))) is None


@pytest.mark.promise("B38", "P-25")
def test_values_leave_the_record_within_its_bound() -> None:
    error = Plain("v" * (MAX_VALUES_BYTES - 200))
    error.__cause__ = ValueError("m" * MAX_ERROR_BYTES)

    record = DECLARED.describe(error)

    assert record.values
    assert len(encode_error(record)) <= MAX_ERROR_BYTES


@pytest.mark.promise("B38")
def test_values_that_are_nested_too_deep_to_stand_in_an_error_are_left_out() -> None:
    deep: list[Any] = []
    for _ in range(62):
        deep = [deep]

    fits, deeper = DECLARED.describe(Plain(deep)), DECLARED.describe(Plain([deep]))

    assert through_the_store(Plain(deep)) is not None
    assert fits.values
    assert decode_error(encode_error(deeper)) == deeper
    assert not deeper.values


@pytest.mark.promise("P-103", "E-2")
def test_a_stored_name_selects_among_the_declared_classes_and_nothing_else() -> None:
    stored = encode_error(DECLARED.describe(Plain("x"))).replace(
        f"{__name__}.Plain".encode(), b"subprocess.Popen"
    )
    assert b"subprocess.Popen" in stored
    imported = set(sys.modules)

    record = decode_error(stored)

    assert DECLARED.rebuilt(record) is None
    assert NOTHING_DECLARED.rebuilt(decode_error(encode_error(DECLARED.describe(Plain("x"))))) is None
    assert set(sys.modules) == imported


@pytest.mark.promise("E-2")
@pytest.mark.parametrize(
    ("module", "stored", "is_known"),
    [
        ("shop.errors", "shop.errors.Twin", True),
        ("shop.errors", "__main__.Twin", True),
        ("shop.errors", "__mp_main__.Twin", True),
        ("__main__", "shop.errors.Twin", True),
        ("__main__", "__mp_main__.Twin", True),
        ("shop.errors", "shop.other.Twin", False),
        ("shop.errors", "__main__.Other", False),
        ("shop.errors", "__main__.Outer.Twin", False),
        ("__main__", "shop.errors.Untwin", False),
    ],
)
def test_a_class_of_the_program_that_runs_is_known_wherever_that_is_imported(
    module: str, stored: str, is_known: bool
) -> None:
    twin: type[Exception] = type("Twin", (Exception,), {"__module__": module})
    declared = DeclaredErrors.of([twin], task="t")
    record = replace(declared.describe(twin(1)), declared=stored)

    again = declared.rebuilt(record)

    assert (type(again) is twin) == is_known


@pytest.mark.promise("E-2", "P-102")
def test_values_that_no_longer_fit_the_class_are_no_error_to_rebuild() -> None:
    record = DECLARED.describe(ByPlace("51", 7))

    class Now(Exception):
        def __init__(self, code: int) -> None:
            self.code = code

    Now.__module__, Now.__qualname__ = ByPlace.__module__, ByPlace.__qualname__

    assert DeclaredErrors.of([Now], task="pay").rebuilt(record) is None


@pytest.mark.promise("P-99", "P-103")
def test_stored_values_that_are_damaged_are_an_error_that_cannot_be_read() -> None:
    stored = encode_error(DECLARED.describe(Plain("x")))

    with pytest.raises(CorruptRecord, match="error of job j"):
        decode_error(stored.replace(b'"args"', b'"nope"'), job="j")


@pytest.mark.promise("P-25", "P-102")
def test_secrets_are_neither_in_the_message_nor_among_the_values_that_are_not_marked() -> None:
    hidden = DECLARED.describe(Plain("token is hunter2"), hide=("hunter2",))
    own = DECLARED.describe(Card("4111-1111"))

    assert hidden.values == b""
    assert b"hunter2" not in encode_error(hidden)
    assert own.message == "no such card: ***"
    assert isinstance(again := DECLARED.rebuilt(own), Card)
    assert again.number == "4111-1111"
    assert b'"secret":["number"]' in own.values


class _LockedCard(Exception):
    def __init__(self, number: Annotated[str, Secret], lock: Any) -> None:
        super().__init__(f"no such card: {number}")
        self.number = number
        self.lock = lock


@pytest.mark.promise("P-25", "P-102")
def test_a_secret_of_an_error_whose_values_cannot_be_stored_is_hidden_all_the_same() -> None:
    record = DeclaredErrors.of([_LockedCard], task="pay").describe(_LockedCard("4111", threading.Lock()))

    assert (record.message, record.values) == ("no such card: ***", b"")
    assert "4111" not in record.traceback


class _NotAnException:
    pass


class _Unstorable(Exception):
    def __init__(self, lock: threading.Event) -> None:
        self.lock = lock


class _Unresolvable(Exception):
    def __init__(self, other: "Missing") -> None:  # type: ignore[name-defined]  # noqa: F821, UP037  it is not there
        self.other = other


@pytest.mark.promise("P-103", "E-4")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (CardDeclined, r"say raises=\(CardDeclined,\)"),
        ("CardDeclined", "no sequence of exception classes"),
        (7, "no sequence of exception classes"),
        ([_NotAnException], "is no exception class"),
        ([CardDeclined("1", Decimal(1))], "is no exception class"),
        ([KeyboardInterrupt], "is no exception class"),
        ([Plain, Plain], "two classes are called"),
        ([_Unstorable], "raises .*_Unstorable, parameter lock: .*cannot be stored"),
        ([_Unresolvable], "cannot be resolved"),
    ],
    ids=repr,
)
def test_what_is_no_declaration_is_refused(given: Any, says: str) -> None:
    with pytest.raises(InvalidSetting, match=says):
        DeclaredErrors.of(given, task="pay")


@pytest.mark.promise("E-2")
def test_an_undeclared_error_is_stored_as_before() -> None:
    stored = msgspec.json.decode(encode_error(NOTHING_DECLARED.describe(ValueError("x"))))

    assert set(stored) == {"v", "type", "message", "traceback"}
