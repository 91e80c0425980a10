"""How a call is bound to a task's function, and what happens when function and stored call differ."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasemq.errors import (
    ArgumentMismatch,
    CorruptRecord,
    InvalidSetting,
    PayloadRejected,
    PayloadTooLarge,
    ResultMismatch,
    ResultTooLarge,
)
from leasemq.protocol.envelope import DEFAULT_LIMIT_BYTES, describe
from leasemq.protocol.signature import Signature
from tests.protocol.values import PLAIN, Line, Order, refusal_of, same, sent, signature

if TYPE_CHECKING:
    from nowhere import Context


def by_name(to: str, subject: str = "none", *, urgent: bool = False) -> None: ...


def only_place(a: int, b: int = 2, /, c: int = 3) -> None: ...


def rest(first: int, *others: int, last: str = "z", **named: float) -> None: ...


def shadowed(a: int, /, **named: int) -> None: ...


def stored(function: Callable[..., Any], *args: Any, **kwargs: Any) -> bytes:
    """The bytes of a call."""
    return signature(function).encode_arguments(args, kwargs)


@pytest.mark.promise("P-100")
@pytest.mark.parametrize(
    ("function", "args", "kwargs", "arrived"),
    [
        (by_name, ("ada",), {}, ((), {"to": "ada"})),
        (by_name, ("ada", "hi"), {}, ((), {"to": "ada", "subject": "hi"})),
        (by_name, (), {"urgent": True, "to": "ada"}, ((), {"to": "ada", "urgent": True})),
        (only_place, (1,), {}, ((1,), {})),
        (only_place, (1, 5, 6), {}, ((1, 5), {"c": 6})),
        (rest, (1,), {}, ((), {"first": 1})),
        (rest, (1, 2, 3), {"last": "a", "x": 0.5}, ((1, 2, 3), {"last": "a", "x": 0.5})),
        (rest, (), {"first": 1, "x": 0.5}, ((), {"first": 1, "x": 0.5})),
        (shadowed, (1,), {"a": 2}, ((1,), {"a": 2})),
    ],
)
def test_a_call_arrives_by_name_where_a_name_will_do_and_without_defaults(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], arrived: Any
) -> None:
    assert sent(function, *args, **kwargs) == arrived


@pytest.mark.promise("P-40", "P-100")
def test_calls_that_mean_the_same_have_the_same_bytes() -> None:
    one = stored(by_name, "ada", "hi", urgent=True)

    assert one == stored(by_name, urgent=True, subject="hi", to="ada")
    assert one == stored(by_name, "ada", urgent=True, subject="hi")
    assert one != stored(by_name, "ada", "hi")


@pytest.mark.promise("P-100", "E-1")
@pytest.mark.parametrize(
    ("function", "args", "kwargs", "reason"),
    [
        (by_name, (), {}, "missing a required argument: 'to'"),
        (by_name, ("a", "b", "c"), {}, "too many positional arguments"),
        (by_name, ("a",), {"to": "b"}, "multiple values for argument 'to'"),
        (by_name, ("a",), {"cc": "b"}, "unexpected keyword argument 'cc'"),
        (by_name, ("a",), {"c\u202ec": "b"}, r"unexpected keyword argument 'c\\u202ec'"),
        (only_place, (), {"a": 1}, "'a'"),
        (rest, (), {}, "missing a required argument: 'first'"),
        (rest, (1, "2"), {}, r"argument others\[0\]: Expected `int`, got `str`"),
        (rest, (1,), {"x": "y"}, "argument x: Expected `float`, got `str`"),
        (rest, ("1",), {}, "argument first: Expected `int`"),
        (rest, (1,), {"\ud83d": 0.5}, r"argument \\ud83d: the text has a lone surrogate"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_at_the_caller(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], reason: str
) -> None:
    with pytest.raises(PayloadRejected, match=f"^task t.*{reason}") as refused:
        signature(function).encode_arguments(args, kwargs)

    assert isinstance(refused.value, TypeError)
    assert str(refused.value).isprintable()


@pytest.mark.promise("P-100")
@given(
    st.lists(PLAIN, max_size=4),
    st.dictionaries(st.text(st.characters(categories=["L"]), min_size=1), PLAIN, max_size=4),
)
def test_any_call_of_a_function_that_takes_everything_arrives(
    args: list[Any], kwargs: dict[str, Any]
) -> None:
    def everything(*args: Any, **kwargs: Any) -> None: ...

    assert same(sent(everything, *args, **kwargs), (tuple(args), kwargs))


@pytest.mark.promise("P-28", "B42")
def test_a_parameter_added_since_is_a_mismatch_that_names_task_and_parameter() -> None:
    def old(user: int) -> None: ...

    def new(user: int, site: str) -> None: ...

    def tolerant(user: int, site: str = "main") -> None: ...

    payload = stored(old, 1)

    with pytest.raises(
        ArgumentMismatch, match=r"do not fit task t: missing parameter site \(stored under schema"
    ) as raised:
        signature(new).decode_arguments(payload)
    assert not isinstance(raised.value, CorruptRecord)
    assert signature(tolerant).decode_arguments(payload) == ((), {"user": 1})


@pytest.mark.promise("P-28", "B42")
def test_a_parameter_that_only_a_position_fills_since_is_a_mismatch_also_beside_any_names() -> None:
    def old(a: int, **named: int) -> None: ...

    with pytest.raises(ArgumentMismatch, match="missing parameter a "):
        signature(shadowed).decode_arguments(stored(old, 1, b=2))


@pytest.mark.promise("P-28", "B42")
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        ({"cc": 1}, "missing parameter to"),
        ({"to": "a", "cc": 1}, "unexpected parameter cc"),
        ({"to": 5}, "parameter to: Expected `str`, got `int`"),
        ({"to": "a", "urgent": "yes"}, "parameter urgent: Expected `bool`"),
    ],
)
def test_readable_arguments_that_do_not_fit_say_where(call: dict[str, Any], reason: str) -> None:
    def anyhow(**kwargs: Any) -> None: ...

    with pytest.raises(ArgumentMismatch, match=reason):
        signature(by_name).decode_arguments(stored(anyhow, **call))


@pytest.mark.promise("P-28")
@pytest.mark.parametrize(
    ("args", "kwargs", "reason"),
    [
        ((1, 2, 3, 4), {}, "unexpected parameter number 4"),
        ((1,), {"a": 1}, "unexpected parameter a"),
        ((1, 2, 3), {"c": 1}, "parameter c is given twice"),
        ((), {"c": 1}, "missing parameter a"),
    ],
)
def test_stored_positions_that_do_not_fit_say_where(
    args: tuple[Any, ...], kwargs: dict[str, Any], reason: str
) -> None:
    def anyhow(*args: Any, **kwargs: Any) -> None: ...

    with pytest.raises(ArgumentMismatch, match=reason):
        signature(only_place).decode_arguments(stored(anyhow, *args, **kwargs))


@pytest.mark.promise("P-28")
def test_a_place_inside_a_value_is_named() -> None:
    def old(order: dict[str, Any]) -> None: ...

    def new(order: Order) -> None: ...

    with pytest.raises(
        ArgumentMismatch, match=r"parameter order\.lines\[0\]\.count: Expected `int`, got `str`"
    ):
        signature(new).decode_arguments(stored(old, {"id": 1, "lines": [{"sku": "a", "count": "x"}]}))


@pytest.mark.promise("P-100", "P-28")
def test_a_types_own_refusal_on_arrival_is_a_mismatch() -> None:
    @dataclass
    class Positive:
        n: int

        def __post_init__(self) -> None:
            if self.n < 0:
                raise LookupError("no")

    def new(n: Any) -> None: ...

    new.__annotations__ = {"n": Positive}

    with pytest.raises(ArgumentMismatch, match="its own code raised LookupError"):
        signature(new).decode_arguments(stored(lambda n: n, {"n": -1}))


@pytest.mark.promise("P-100", "E-3")
def test_the_schema_id_follows_names_types_and_result() -> None:
    def same_again(to: str, subject: str = "else", *, urgent: bool = True) -> None: ...

    def other_type(to: bytes, subject: str = "none", *, urgent: bool = False) -> None: ...

    def other_name(whom: str, subject: str = "none", *, urgent: bool = False) -> None: ...

    def other_result(to: str, subject: str = "none", *, urgent: bool = False) -> int: ...

    found = signature(by_name).schema_id

    assert found == Signature.of(same_again, task="another").schema_id
    assert len({found, *(signature(f).schema_id for f in (other_type, other_name, other_result))}) == 4


@pytest.mark.promise("E-3", "E-56")
def test_the_schema_id_is_the_same_in_every_process_and_release() -> None:
    assert signature(by_name).schema_id == "38c8e3e3fe53"
    assert signature(rest).schema_id == "c4553a90c080"


@pytest.mark.promise("E-3", "E-1")
def test_a_result_read_as_another_type_is_a_mismatch_and_no_bad_value() -> None:
    def old() -> str: ...  # type: ignore[empty-body]  # only its annotations are looked at

    def new() -> Line: ...  # type: ignore[empty-body]  # only its annotations are looked at

    payload = signature(old).encode_result("text")

    with pytest.raises(
        ResultMismatch, match=r"result of job q/1 is not what task t declares: Expected `object`.*schema"
    ):
        signature(new).decode_result(payload, job="q/1")
    assert signature(old).decode_result(payload) == "text"


@pytest.mark.promise("P-101", "B34", "A-40", "E-57")
@pytest.mark.parametrize("limit", [262_144, DEFAULT_LIMIT_BYTES])
def test_the_last_byte_within_the_limit_is_accepted_and_the_next_is_not(limit: int) -> None:
    found = signature(by_name)
    room = limit - len(found.encode_arguments(("",), {}))

    assert len(found.encode_arguments(("x" * room,), {}, limit)) == limit
    with pytest.raises(
        PayloadTooLarge,
        match=f"task t take {limit + 1} bytes encoded; the limit is {limit} .*largest, to, takes {room + 3}",
    ):
        found.encode_arguments(("x" * (room + 1),), {}, limit)


@pytest.mark.promise("P-101", "P-26", "B34", "E-57")
def test_a_result_over_the_limit_is_refused_with_size_and_limit() -> None:
    found = signature(by_name)
    anything = signature(lambda: None)
    room = DEFAULT_LIMIT_BYTES - len(anything.encode_result(""))

    assert len(anything.encode_result("x" * room)) == DEFAULT_LIMIT_BYTES
    with pytest.raises(
        ResultTooLarge, match="result of task t: takes 1048577 bytes encoded; the limit is 1048576"
    ):
        anything.encode_result("x" * (room + 1))
    with pytest.raises(ResultTooLarge):
        anything.encode_result(["x" * 1_000_000] * 17)
    assert found.encode_result(None)


@pytest.mark.promise("P-101")
@given(PLAIN, st.integers(1, 300))
def test_nothing_over_the_limit_is_ever_produced(value: Any, limit: int) -> None:
    found = signature(lambda value: value)
    whole = found.encode_arguments((value,), {})

    refused = refusal_of(lambda: found.encode_arguments((value,), {}, limit), PayloadTooLarge)
    result_refused = refusal_of(lambda: found.encode_result(value, limit), ResultTooLarge)

    assert (refused is not None) == (len(whole) > limit)
    assert (result_refused is not None) == (len(found.encode_result(value)) > limit)
    assert refused is None or str(limit) in str(refused)


@pytest.mark.promise("P-100")
def test_the_context_comes_first_and_is_no_argument() -> None:
    def task(ctx: Context, month: str) -> int: ...  # type: ignore[empty-body]  # only its annotations are looked at

    found = Signature.of(task, task="t", skip_first=True)

    assert found.decode_arguments(found.encode_arguments(("2026-11",), {})) == ((), {"month": "2026-11"})
    with pytest.raises(
        InvalidSetting, match="an annotation cannot be resolved: name 'Context' is not defined"
    ):
        Signature.of(task, task="t")


@pytest.mark.promise("P-100")
@pytest.mark.parametrize("function", [lambda: None, lambda *args: None, lambda **kwargs: None])
def test_a_context_needs_a_parameter(function: Callable[..., Any]) -> None:
    with pytest.raises(InvalidSetting, match="no first parameter to take the context"):
        Signature.of(function, task="t", skip_first=True)


@pytest.mark.promise("P-100")
def test_wrapped_partial_bound_and_callable_functions_have_signatures() -> None:
    class Sends:
        def send(self, to: str) -> None: ...

        def __call__(self, to: str) -> None: ...

    @functools.wraps(by_name)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    for function in (wrapper, functools.partial(by_name, urgent=True), Sends().send, Sends()):
        assert sent(function, "ada") == ((), {"to": "ada"})
        with pytest.raises(PayloadRejected, match="argument to: Expected `str`"):
            sent(function, 5)


@pytest.mark.promise("P-100")
def test_constraints_in_an_annotation_hold() -> None:
    def task(n: Annotated[int, msgspec.Meta(ge=1, le=9)]) -> None: ...

    assert sent(task, 9) == ((), {"n": 9})
    with pytest.raises(PayloadRejected, match="argument n: Expected `int` <= 9"):
        sent(task, 10)


@pytest.mark.promise("P-42")
def test_a_task_name_is_shown_escaped_in_messages() -> None:
    with pytest.raises(PayloadRejected, match=r"task m\\u202e"):
        Signature.of(by_name, task="m\u202e").encode_arguments((), {})


@pytest.mark.promise("P-100")
def test_a_stored_call_can_be_shown_without_its_function() -> None:
    payload = stored(rest, 1, 2, last="x", y=1.5)

    assert describe(payload) == {
        "schema": signature(rest).schema_id,
        "args": [1, 2],
        "kwargs": {"last": "x", "y": 1.5},
    }
