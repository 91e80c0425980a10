"""Stored bytes: their form is fixed, and bytes that are not of that form give typed errors only."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leasemq.errors import ArgumentMismatch, CorruptRecord, ResultMismatch, UnknownEnvelope
from leasemq.protocol.envelope import (
    HARD_LIMIT_BYTES,
    decode_plain,
    describe,
    describe_result,
    encode_plain,
)
from tests.protocol.values import PLAIN, Order, anything, signature


def two_texts(to: str, subject: str) -> str: ...  # type: ignore[empty-body]  # only its annotations are looked at


def typed(n: int, order: Order, ids: dict[int, UUID], *rest: float) -> list[Order]: ...  # type: ignore[empty-body]  # as above


TEXTS = signature(two_texts)
TYPED = signature(typed)
ANY = signature(anything)
GOLDEN = b'{"v":1,"schema":"dcc2992c8d6d","kwargs":{"to":"ada","subject":"\xc3\xa9\\u0000"}}'
GOLDEN_RESULT = b'{"v":1,"schema":"dcc2992c8d6d","value":"ok"}'
MEBIBYTE = 1024 * 1024

NO_ENVELOPE: dict[str, bytes] = {
    "empty": b"",
    "null": b"null",
    "a list": b"[]",
    "a text": b'"x"',
    "no fields": b"{}",
    "no schema": b'{"v":1}',
    "version as text": b'{"v":"1","schema":"x"}',
    "version zero": b'{"v":0,"schema":"x"}',
    "version below zero": b'{"v":-1,"schema":"x"}',
    "version true": b'{"v":true,"schema":"x"}',
    "version of 4,000 digits": b'{"v":%s,"schema":"x"}' % (b"9" * 4_000),
    "args no list": b'{"v":1,"schema":"x","args":{}}',
    "kwargs no map": b'{"v":1,"schema":"x","kwargs":[]}',
    "an unknown field": b'{"v":1,"schema":"x","more":1}',
    "no UTF-8": b'{"v":1,"schema":"\xff"}',
    "a lone surrogate": b'{"v":1,"schema":"x","kwargs":{"value":"\\ud83d"}}',
    "trailing bytes": GOLDEN + b"x",
    "NaN": b'{"v":1,"schema":"x","kwargs":{"value":NaN}}',
    "out of range": b'{"v":1,"schema":"x","kwargs":{"value":1e999}}',
    "an int of 4,000 digits": b'{"v":1,"schema":"x","kwargs":{"value":%s}}' % (b"9" * 4_000),
    "an int of 5,000 digits": b'{"v":1,"schema":"x","kwargs":{"value":%s}}' % (b"9" * 5_000),
    "an int beyond 64 bits": b'{"v":1,"schema":"x","kwargs":{"value":[{"a":9223372036854775808}]}}',
    "67 deep": b'{"v":1,"schema":"x","kwargs":{"value":' + b"[" * 65 + b"]" * 65 + b"}}",
    "100,000 deep": b'{"v":1,"schema":"x","kwargs":{"value":' + b"[" * 100_000,
    "pickle": b"\x80\x05K\x01.",
}


@pytest.mark.promise("P-100", "E-56")
def test_the_bytes_of_arguments_and_results_are_fixed() -> None:
    assert TEXTS.encode_arguments(("ada", "é\x00"), {}) == GOLDEN
    assert TEXTS.encode_result("ok") == GOLDEN_RESULT
    assert encode_plain({"at": 3}, what="checkpoint") == b'{"v":1,"plain":{"at":3}}'
    assert TEXTS.decode_arguments(GOLDEN) == ((), {"to": "ada", "subject": "é\x00"})
    assert TEXTS.decode_result(GOLDEN_RESULT) == "ok"


@pytest.mark.promise("P-99", "P-103", "E-58", "B31")
@pytest.mark.parametrize("payload", NO_ENVELOPE.values(), ids=NO_ENVELOPE.keys())
def test_bytes_that_are_no_arguments_are_a_corrupt_record_that_names_the_job(payload: bytes) -> None:
    for decode in (ANY.decode_arguments, describe):
        with pytest.raises(
            CorruptRecord, match=r"^the stored arguments of job mail/7 cannot be read"
        ) as raised:
            decode(payload, job="mail/7")
        assert not isinstance(raised.value, UnknownEnvelope)
        assert len(str(raised.value)) < 400


@pytest.mark.promise("P-99", "E-58")
@pytest.mark.parametrize("length", range(len(GOLDEN)))
def test_every_truncation_is_a_corrupt_record(length: int) -> None:
    with pytest.raises(CorruptRecord):
        TEXTS.decode_arguments(GOLDEN[:length])
    with pytest.raises(CorruptRecord):
        TEXTS.decode_result(GOLDEN_RESULT[:length] if length < len(GOLDEN_RESULT) else b"")


@pytest.mark.promise("P-99", "E-58")
def test_bytes_of_another_kind_are_a_corrupt_record() -> None:
    plain = encode_plain(1, what="checkpoint")

    for wrong in (GOLDEN_RESULT, plain):
        with pytest.raises(CorruptRecord):
            TEXTS.decode_arguments(wrong)
    for wrong in (GOLDEN, plain):
        with pytest.raises(CorruptRecord):
            TEXTS.decode_result(wrong)
    for wrong in (GOLDEN, GOLDEN_RESULT):
        with pytest.raises(CorruptRecord, match="stored checkpoint of job mail/7"):
            decode_plain(wrong, what="checkpoint", job="mail/7")


@pytest.mark.promise("P-28", "P-85", "E-58")
@pytest.mark.parametrize(
    "payload",
    [
        b'{"v":2}',
        b'{"v":2,"schema":"x","args":[],"kwargs":{}}',
        b'{"v":2,"codec":"zstd","data":"AAAA"}',
        b'{"other":[1,{"v":9}],"v":2}',
        b'{"v":2,"deep":' + b"[" * 70 + b"]" * 70 + b"}",
        b'{"v":2,"big":99999999999999999999}',
    ],
)
def test_a_newer_version_is_told_apart_from_damage(payload: bytes) -> None:
    for decode in (ANY.decode_arguments, ANY.decode_result, describe, describe_result):
        with pytest.raises(UnknownEnvelope, match="job mail/7 has version 2, this release knows 1") as raised:
            decode(payload, job="mail/7")
        assert raised.value.version == 2
    with pytest.raises(UnknownEnvelope):
        decode_plain(payload, what="checkpoint")


@pytest.mark.promise("P-99")
def test_damage_inside_a_typed_argument_is_not_called_a_mismatch() -> None:
    broken = b'{"v":1,"schema":"x","kwargs":{"to":"\xff","subject":""}}'

    with pytest.raises(CorruptRecord, match="arguments of job mail/7 cannot be read"):
        TEXTS.decode_arguments(broken, job="mail/7")
    with pytest.raises(CorruptRecord, match="result of job mail/7 cannot be read"):
        TEXTS.decode_result(b'{"v":1,"schema":"x","value":"\xff"}', job="mail/7")
    with pytest.raises(CorruptRecord):
        describe(broken)


@pytest.mark.promise("P-103")
def test_a_repeated_key_counts_by_its_last_value_for_every_reader() -> None:
    payload = b'{"v":1,"v":1,"schema":"x","kwargs":{"value":1,"value":{"a":1,"a":2}}}'

    assert ANY.decode_arguments(payload) == ((), {"value": {"a": 2}})
    assert describe(payload)["kwargs"] == {"value": {"a": 2}}


@pytest.mark.promise("P-100")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"0.1234567890123456789012345", 0.12345678901234568),
        (b"1234567890123456789012.0", 1.2345678901234568e21),
        (b"1e+0000000000000000000001", 10.0),
        (b'"9999999999999999999999999"', "9" * 25),
        (b'"' + b"[{" * 100 + b'"', "[{" * 100),
        (b'"\\\\\\"' + b"[" * 100 + b'"', '\\"' + "[" * 100),
    ],
)
def test_bounds_are_not_taken_for_broken_by_texts_and_floats(text: bytes, value: Any) -> None:
    payload = b'{"v":1,"schema":"x","kwargs":{"value":' + text + b"}}"

    assert ANY.decode_arguments(payload) == ((), {"value": value})


HOSTILE: dict[str, bytes] = {
    "open lists": b"[" * MEBIBYTE,
    "closed lists": b"]" * MEBIBYTE,
    "pairs": b"[]" * (MEBIBYTE // 2),
    "open and closed maps": b'{"a":' * (MEBIBYTE // 5),
    "quotes": b'"' * MEBIBYTE,
    "escaped quotes": b'"' + b'\\"' * (MEBIBYTE // 2),
    "backslashes": b'"' + b"\\" * MEBIBYTE,
    "digits": b"9" * MEBIBYTE,
    "many long digits": (b"9" * 19 + b",") * (MEBIBYTE // 20),
    "digits and points": (b"9" * 25 + b".,") * (MEBIBYTE // 27),
    "zeros": bytes(MEBIBYTE),
    "64 deep and wide": b"[" + b",".join([b"[" * 60 + b"]" * 60] * 8_000) + b"]",
    "too long": b'{"v":1,"schema":"' + b"x" * HARD_LIMIT_BYTES + b'"}',
}


@pytest.mark.promise("P-103", "P-99")
@pytest.mark.timeout(10)
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_bytes_end_in_a_typed_error_soon(hostile: bytes) -> None:
    for payload in (hostile, b'{"v":1,"schema":"x","kwargs":{"value":' + hostile):
        with pytest.raises(CorruptRecord):
            ANY.decode_arguments(payload)


@pytest.mark.promise("P-103", "P-99", "E-58")
@settings(max_examples=500)
@given(st.binary(max_size=200) | st.text().map(str.encode))
@example(b'{"v":1,"schema":"","secret":[99]}')
def test_random_bytes_give_typed_errors_only(payload: bytes) -> None:
    for decode in (
        ANY.decode_arguments,
        TYPED.decode_arguments,
        ANY.decode_result,
        describe,
        describe_result,
    ):
        with suppress(CorruptRecord, ArgumentMismatch):
            decode(payload)


SCALARS = [
    "null",
    "true",
    "0",
    "-0",
    "1e5",
    "1E-400",
    "9" * 19,
    "9" * 30,
    '""',
    '"\\ud83d"',
    '"a"',
    '"NaN"',
    '"-1"',
]
KEYS = ["id", "lines", "parts", "5", "x" * 30, "9" * 5_000]


def as_list(items: list[str]) -> str:
    """JSON text of a list."""
    return f"[{','.join(items)}]"


def as_map(pairs: list[tuple[str, str]]) -> str:
    """JSON text of a map, in which a key may be repeated."""
    return "{" + ",".join(f'"{key}":{value}' for key, value in pairs) + "}"


JSON_TEXTS = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: (
        st.lists(inner, max_size=4).map(as_list)
        | st.lists(st.tuples(st.sampled_from(KEYS), inner), max_size=4).map(as_map)
    ),
    max_leaves=10,
)


@pytest.mark.promise("P-103", "P-99", "P-28", "E-58")
@settings(max_examples=500)
@given(
    st.dictionaries(st.sampled_from(["n", "order", "ids", "rest", "value"]), JSON_TEXTS),
    st.lists(JSON_TEXTS, max_size=5),
    JSON_TEXTS,
)
def test_any_values_in_a_sound_envelope_give_typed_errors_only(
    named: dict[str, str], placed: list[str], returned: str
) -> None:
    kwargs = as_map(list(named.items()))
    arguments = f'{{"v":1,"schema":"x","args":{as_list(placed)},"kwargs":{kwargs}}}'.encode()
    result = f'{{"v":1,"schema":"x","value":{returned}}}'.encode()

    for decode, payload in (
        (TYPED.decode_arguments, arguments),
        (ANY.decode_arguments, arguments),
        (TYPED.decode_result, result),
    ):
        with suppress(CorruptRecord, ArgumentMismatch, ResultMismatch):
            decode(payload)


@pytest.mark.promise("P-103", "P-99")
@settings(max_examples=300)
@given(PLAIN, st.data())
def test_a_flipped_byte_gives_a_value_or_a_typed_error(value: Any, data: st.DataObject) -> None:
    payload = bytearray(ANY.encode_arguments((value,), {}))
    place = data.draw(st.integers(0, len(payload) - 1))
    payload[place] = data.draw(st.integers(0, 255))

    with suppress(CorruptRecord, ArgumentMismatch):
        ANY.decode_arguments(bytes(payload))


@pytest.mark.promise("P-103")
def test_reading_hostile_names_imports_and_opens_nothing() -> None:
    seen: list[str] = []
    watching = [True]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching[0] and event in {
            "import",
            "open",
            "exec",
            "compile",
            "pickle.find_class",
            "subprocess.Popen",
        }:
            seen.append(event)

    sys.addaudithook(watch)
    for text in (
        b'"os.system"',
        b'{"__class__":"os.system","py/object":"subprocess.Popen"}',
        b'"../../etc/passwd"',
    ):
        payload = b'{"v":1,"schema":"os","kwargs":{"value":' + text + b"}}"
        ANY.decode_arguments(payload)
        describe(payload)
    watching[0] = False  # an audit hook cannot be taken out again

    assert seen == []


@pytest.mark.promise("P-103")
@pytest.mark.parametrize("inside", [b"", b'{"a":1}', b'"]]"'])
def test_bytes_nested_deeper_than_any_value_may_be_are_not_decoded(inside: bytes) -> None:
    def stored(depth: int) -> bytes:
        return b'{"v":1,"schema":"x","kwargs":{"value":' + b"[" * depth + inside + b"]" * depth + b"}}"

    room = 64 - (inside[:1] == b"{")
    ANY.decode_arguments(stored(room))
    with pytest.raises(CorruptRecord, match="more than 64 deep"):
        ANY.decode_arguments(stored(room + 1))
