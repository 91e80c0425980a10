"""Which names are accepted, how refused ones are answered, and what a terminal is shown."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leasemq.errors import InvalidJobId, InvalidName, InvalidQueueName, LeaseMQError
from leasemq.protocol.names import (
    check_job_id,
    check_key,
    check_namespace,
    check_queue,
    check_task_name,
    mask_url,
    shown,
    shown_value,
)

Check = Callable[[str], str]
CHECKS: list[tuple[Check, type[InvalidName], str]] = [
    (check_queue, InvalidQueueName, "queue name"),
    (check_job_id, InvalidJobId, "job id"),
    (check_task_name, InvalidName, "task name"),
    (check_key, InvalidName, "unique key"),
    (check_namespace, InvalidName, "namespace"),
]
every_kind = pytest.mark.parametrize(("check", "refusal", "kind"), CHECKS)

ODD_BUT_ALLOWED = [
    "a",
    "a:delayed",
    "a:",
    "{a}",
    "a{b}",
    "mail out",
    "日本",
    "q/../x",
    "q%2Fx",
    "*",
    "amq.gen-x",
    "'; DROP TABLE job; --",
    " ",
    "ids",
    "states",
    "x" * 255,
    "x" * 256,
    "é" * 128,
    "a\u2028b",  # a separator, not a control character; it is escaped where it is shown
    "a\u202eb",
]
REFUSED = {
    "empty": "",
    "257 bytes": "x" * 257,
    "257 bytes in 129 characters": "é" * 128 + "x",
    "258 bytes in 129 characters": "é" * 129,
    "ten thousand characters": "x" * 10_000,
    "NUL": "a\x00b",
    "new line": "a\nb",
    "escape": "\x1b[31mred",
    "DEL": "a\x7f",
    "C1": "a\x85b",
    "lone surrogate": "a\ud83db",
}


@pytest.mark.promise("P-42", "B47", "A-5")
@pytest.mark.parametrize("name", ODD_BUT_ALLOWED)
@every_kind
def test_an_odd_name_is_accepted_as_it_stands(
    check: Check, refusal: type[InvalidName], kind: str, name: str
) -> None:
    assert check(name) == name


@pytest.mark.promise("P-42", "B47")
@pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED.keys())
@every_kind
def test_a_name_outside_the_rule_is_refused_by_kind_value_and_rule(
    check: Check, refusal: type[InvalidName], kind: str, name: str
) -> None:
    with pytest.raises(refusal) as refused:
        check(name)

    text = str(refused.value)
    assert text.startswith(kind)
    assert "1 to 256 bytes of UTF-8 without control characters" in text
    assert text.isprintable()
    assert len(text) < 400
    assert isinstance(refused.value, ValueError)


@pytest.mark.promise("P-42")
def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(InvalidQueueName, match="bytes is not allowed: it is not a str"):
        check_queue(b"mail")  # type: ignore[arg-type]  # the mistake under test


@pytest.mark.promise("P-42")
@given(st.text())
@example("\x9f")
@example("\x20")
def test_a_name_is_accepted_exactly_when_it_is_1_to_256_bytes_without_controls(name: str) -> None:
    has_control = any(ord(c) < 32 or 127 <= ord(c) <= 159 for c in name)
    is_allowed = 1 <= len(name.encode("utf-8", "surrogatepass")) <= 256 and not has_control
    is_allowed = is_allowed and not any(0xD800 <= ord(c) <= 0xDFFF for c in name)

    try:
        accepted = check_key(name) == name
    except InvalidName:
        accepted = False

    assert accepted == is_allowed


@pytest.mark.promise("P-42")
def test_two_spellings_of_one_word_stay_two_names() -> None:
    assert check_queue("caf\u00e9") != check_queue("cafe\u0301")


@pytest.mark.promise("P-42")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mail", "mail"),
        ("日本", "日本"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u2028b", "a\\u2028b"),
        ("a\u200bb", "a\\u200bb"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb", "a\\nb"),
        ("a\\nb", "a\\\\nb"),
        ("\ud83d", "\\ud83d"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_what_a_terminal_would_act_on_is_shown_escaped(text: str, expected: str) -> None:
    assert shown(text) == expected


@pytest.mark.promise("P-42")
@given(st.text(alphabet=st.characters()), st.text(alphabet=st.characters()))
@example("\n", "\\n")
def test_shown_text_is_printable_and_tells_texts_apart(one: str, other: str) -> None:
    assert shown(one).isprintable()
    assert (shown(one) == shown(other)) == (one == other)


@pytest.mark.promise("P-42")
def test_a_long_text_is_shown_shortened() -> None:
    assert shown("x" * 1_000, 10) == "x" * 10 + "…"


@pytest.mark.promise("P-18")
def test_a_setting_is_shown_short_and_printable() -> None:
    values = [5, None, "a\x1b", 10**5_000, object()]

    assert [shown_value(value) for value in values] == [
        "5",
        "None",
        "'a\\\\x1b'",
        "<int of 16610 bits>",
        "<object>",
    ]


@pytest.mark.promise("P-102")
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://user:hunter2@host:6379/0", "redis://user:***@host:6379/0"),
        ("redis://:hunter2@host", "redis://:***@host"),
        ("postgresql://u:hunter2@h1,h2:5432/db?schema=x", "postgresql://u:***@h1,h2:5432/db?schema=x"),
        (
            "amqp://u:hunter2@h/v?ledger=postgresql://v:hunter2@d/x",
            "amqp://u:***@h/v?ledger=postgresql://v:***@d/x",
        ),
        (
            "amqp://u:hunter2@h/?ledger=postgresql%3A%2F%2Fv%3Ahunter2%40d%2Fx",
            "amqp://u:***@h/?ledger=postgresql://v:***@d/x",
        ),
        (
            "redis+sentinel://h:26379/main?sentinel_password=hunter2&db=1",
            "redis+sentinel://h:26379/main?sentinel_password=***&db=1",
        ),
        ("sqlite:///jobs.db?sync=full", "sqlite:///jobs.db?sync=full"),
        ("sqlite:////home/a@b/c:d.db", "sqlite:////home/a@b/c:d.db"),
        ("redis://host:6379/0", "redis://host:6379/0"),
        ("redis://user@host", "redis://user@host"),
        ("redis://h:6379?password=p@hunter2", "redis://h:***"),
        ("redis://u:a&token=b@hunter2", "redis://u:***"),
        ("host=h password=hunter2", "host=h password=***"),
        ("memory://", "memory://"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, expected: str) -> None:
    assert mask_url(url) == expected


@pytest.mark.promise("P-102")
@pytest.mark.parametrize(
    "password", ["p@ss", "p/w", "p?w", "p#w", "p:w", "p w", "p/@w:x@y?z", "%70%40", "é\n"]
)
def test_no_part_of_an_odd_password_is_shown(password: str) -> None:
    assert mask_url(f"redis://user:{password}@host/0") == "redis://user:***@host/0"


@pytest.mark.promise("P-102")
@given(st.text(alphabet=st.characters()), st.text(alphabet=st.characters(), min_size=8))
def test_masking_never_fails_and_never_shows_a_password(junk: str, password: str) -> None:
    assert mask_url(junk) is not None
    if "://" not in password:
        for url in (f"redis://user:{password}@host", f"redis://host:1/?password={password}"):
            assert password not in mask_url(url)


@pytest.mark.promise("P-42")
def test_every_refusal_of_a_name_is_one_of_ours() -> None:
    assert issubclass(InvalidJobId, LeaseMQError)
