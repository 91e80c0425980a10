"""What a raised exception becomes: bounded text, whatever the exception does."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasemq.errors import CorruptRecord, UnknownEnvelope
from leasemq.protocol.failure import (
    MAX_ERROR_BYTES,
    ErrorRecord,
    decode_error,
    describe_exception,
    encode_error,
)


class TwoRequired(Exception):
    """Cannot be rebuilt from its args."""

    def __init__(self, code: int, *, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


class HoldsLock(Exception):
    """Cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("held")
        self.lock = threading.Lock()


class Unspeakable(Exception):
    """Raises whenever it is asked for text."""

    def __str__(self) -> str:
        raise SystemExit(3)

    __repr__ = __str__


class Liar(Exception):
    """Answers text of its own type, with a lone surrogate."""

    class Text(str):
        """Not quite a str."""

    def __str__(self) -> str:
        return Liar.Text("bad \ud83d text")


class Own(BaseException):
    """Not an Exception."""


class Hostile(Exception):
    """Raises from attributes that a formatter reads."""

    @property
    def __notes__(self) -> list[str]:
        raise RuntimeError("no notes")


def raised(error: BaseException) -> BaseException:
    """The same exception with a traceback."""
    try:
        raise error
    except BaseException as caught:
        return caught


@pytest.mark.promise("P-25", "B38", "B39", "E-2")
@pytest.mark.parametrize(
    ("error", "name", "message"),
    [
        (ValueError("bad"), "ValueError", "bad"),
        (KeyError("user"), "KeyError", "'user'"),
        (TwoRequired(7, detail="x"), f"{__name__}.TwoRequired", "7: x"),
        (HoldsLock(), f"{__name__}.HoldsLock", "held"),
        (SystemExit(3), "SystemExit", "3"),
        (KeyboardInterrupt(), "KeyboardInterrupt", ""),
        (GeneratorExit(), "GeneratorExit", ""),
        (StopIteration(5), "StopIteration", "5"),
        (Own("mine"), f"{__name__}.Own", "mine"),
        (BaseExceptionGroup("two", [Own(), ValueError()]), "BaseExceptionGroup", "two (2 sub-exceptions)"),
        (Unspeakable(), f"{__name__}.Unspeakable", "<str() of the exception failed>"),
        (Liar(), f"{__name__}.Liar", "bad \\ud83d text"),
        (Hostile("x"), f"{__name__}.Hostile", "x"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_any_exception_becomes_a_record_that_comes_back(
    error: BaseException, name: str, message: str
) -> None:
    record = describe_exception(raised(error))

    assert (record.type, record.message) == (name, message)
    assert decode_error(encode_error(record)) == record
    assert type(record.message) is str


@pytest.mark.promise("P-25", "B38")
def test_an_exception_defined_inside_a_function_is_named_by_its_place() -> None:
    class Local(Exception):
        pass

    assert describe_exception(Local()).type.endswith(
        "exception_defined_inside_a_function_is_named_by_its_place.<locals>.Local"
    )


@pytest.mark.promise("P-25")
def test_the_traceback_shows_where_it_was_raised_and_its_cause() -> None:
    def fails() -> None:
        try:
            raise KeyError("first")
        except KeyError as error:
            raise ValueError("second") from error

    with pytest.raises(ValueError, match="second") as caught:
        fails()
    trace = describe_exception(caught.value).traceback

    assert 'raise ValueError("second") from error' in trace
    assert "direct cause" in trace
    assert trace.index("KeyError: 'first'") < trace.index("ValueError: second")


@pytest.mark.promise("P-25")
def test_a_cycle_of_causes_ends() -> None:
    one, two = ValueError("one"), ValueError("two")
    one.__cause__, two.__cause__ = two, one

    assert "one" in describe_exception(one).traceback


@pytest.mark.promise("P-25", "B34", "E-57")
@pytest.mark.parametrize(
    "text",
    ["x" * 20_000_000, "\x00" * 100_000, "é" * 100_000, "\U0001f4a5" * 100_000, '\\"' * 100_000],
    ids=["plain", "NUL", "two bytes", "four bytes", "escapes"],
)
def test_a_record_never_takes_more_than_its_limit(text: str) -> None:
    error = type(f"Long{'x' * 2_000}", (Exception,), {"__module__": "m" * 2_000})(text)

    record = describe_exception(raised(error))

    assert len(encode_error(record)) <= MAX_ERROR_BYTES
    assert "characters cut]" in record.message
    assert record.message.startswith(text[:1_000])


@pytest.mark.promise("P-25", "E-57")
@given(st.text(alphabet=st.characters(), max_size=200), st.integers(1, 3_000))
def test_any_message_is_bounded_and_encodable(text: str, times: int) -> None:
    record = describe_exception(ValueError(text * times))

    assert len(encode_error(record)) <= MAX_ERROR_BYTES
    assert decode_error(encode_error(record)) == record


@pytest.mark.promise("P-25")
def test_a_deep_recursion_is_cut_to_its_newest_frames() -> None:
    def down(depth: int) -> None:
        up(depth) if depth % 2 else sideways(depth)

    def up(depth: int) -> None:
        down(depth - 1)

    def sideways(depth: int) -> None:
        if depth == 0:
            raise ValueError("bottom")
        down(depth - 1)

    with pytest.raises(ValueError, match="bottom") as caught:
        down(200)
    trace = describe_exception(caught.value).traceback

    assert "outer frames left out]" in trace
    assert trace.rstrip().endswith("ValueError: bottom")


@pytest.mark.promise("P-25")
def test_a_thousand_causes_are_bounded() -> None:
    error = ValueError("0")
    for number in range(1, 1_000):
        newer = ValueError(str(number))
        newer.__cause__ = error
        error = newer

    assert len(encode_error(describe_exception(error))) <= MAX_ERROR_BYTES


@pytest.mark.promise("P-25", "B44")
def test_a_record_keeps_neither_frames_nor_locals() -> None:
    class Big:
        pass

    def fails() -> tuple[weakref.ref[Big], ErrorRecord]:
        big = Big()
        try:
            raise ValueError("x")
        except ValueError as error:
            return weakref.ref(big), describe_exception(error)

    alive, record = fails()
    gc.collect()

    assert alive() is None
    assert "Big object" not in record.traceback


@pytest.mark.promise("P-102")
@pytest.mark.parametrize(
    "spoken",
    [lambda secret: f"login {secret} failed", repr, lambda secret: f"{[secret]}"],
    ids=["as it stands", "repr", "in a list"],
)
@pytest.mark.parametrize("secret", ["hunter2", 'it\'s\n"quoted"', "\ud83d half", "é💥"])
def test_a_secret_is_hidden_in_message_and_traceback(spoken: Callable[[str], str], secret: str) -> None:
    record = describe_exception(raised(ValueError(spoken(secret))), hide=[secret])

    assert "***" in record.message
    assert "***" in record.traceback
    for spelling in (secret, repr(secret)[1:-1]):
        assert spelling not in record.message + record.traceback


@pytest.mark.promise("P-102")
def test_a_secret_is_hidden_before_the_message_is_cut() -> None:
    secret = "s3cret" * 4_000

    record = describe_exception(ValueError(secret * 3), hide=[secret, ""])

    assert record.message == "***" * 3


@pytest.mark.promise("P-99", "E-58")
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"{}",
        b'{"v":1}',
        b'{"v":0,"type":"E","message":"m","traceback":""}',
        b'{"v":1,"type":"E","message":5,"traceback":""}',
        b'{"v":1,"type":"E","message":"m","traceback":"","more":1}',
        b'{"v":1,"schema":"x","value":1}',
        encode_error(ErrorRecord(type="E", message="m"))[:-1],
    ],
)
def test_bytes_that_are_no_error_are_a_corrupt_record(payload: bytes) -> None:
    with pytest.raises(CorruptRecord, match="stored error of job mail/7") as raised:
        decode_error(payload, job="mail/7")

    assert not isinstance(raised.value, UnknownEnvelope)


@pytest.mark.promise("P-85", "E-58")
def test_an_error_of_a_newer_release_is_told_apart() -> None:
    with pytest.raises(UnknownEnvelope) as raised:
        decode_error(b'{"v":7,"what":[]}')

    assert raised.value.version == 7


@pytest.mark.promise("P-103")
@given(st.binary())
def test_random_bytes_are_an_error_or_a_typed_refusal(payload: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_error(payload)
