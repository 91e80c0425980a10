"""Which names are allowed, and how a name or a URL is shown to people.

Names are compared by bytes and never normalised. Line and paragraph separators (U+2028, U+2029) and
formatting characters are not control characters, so they are allowed, and escaped by `shown`.
"""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import unquote

from leasemq.errors import InvalidJobId, InvalidName, InvalidQueueName

MAX_NAME_BYTES = 256
MASK = "***"
_SHOWN_CHARACTERS = 60
_UNWRAPPINGS = 4  # a URL inside a query parameter may have been percent-encoded more than once

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")  # C0, DEL, C1
_NESTED_URL = re.compile(r"(?<==)(?=[A-Za-z][A-Za-z0-9+.\-]*://)")
_URL_IN_TEXT = re.compile(r"(?<![A-Za-z0-9+.\-])[A-Za-z][A-Za-z0-9+.\-]*://\S+")
_ENCODED_URL = re.compile(r"%(?:25)*3a(?:%(?:25)*2f){2}", re.IGNORECASE)
_SECRET_PARAMETER = re.compile(
    r"((?:^|[?&;\s])[\w.\-]*(?:password|passwd|passphrase|pwd|secret|token|api_?key)[\w.\-]*=)[^&#;]*",
    re.IGNORECASE,
)


def check_queue(name: str) -> str:
    """Answer the queue's name. Raises: InvalidQueueName."""
    return _checked(name, "queue name", InvalidQueueName)


def check_job_id(name: str) -> str:
    """Answer the job id. Raises: InvalidJobId."""
    return _checked(name, "job id", InvalidJobId)


def check_task_name(name: str) -> str:
    """Answer the task's name. Raises: InvalidName."""
    return _checked(name, "task name", InvalidName)


def check_key(name: str) -> str:
    """Answer the unique key. Raises: InvalidName."""
    return _checked(name, "unique key", InvalidName)


def check_namespace(name: str) -> str:
    """Answer the namespace; a backend may narrow it further. Raises: InvalidName."""
    return _checked(name, "namespace", InvalidName)


def shown(text: str, limit: int | None = None) -> str:
    """Answer the text as one printable line: what a terminal would act on is escaped, and so is `\\`.

    Two different texts are never shown alike, unless cut to `limit` characters.
    """
    if limit is not None and len(text) > limit:
        return f"{shown(text[:limit])}…"
    if text.isprintable() and "\\" not in text:
        return text
    return "".join(_shown_character(character) for character in text)


def shown_value(value: object) -> str:
    """Answer a short, printable form of a setting's value; of what is no setting, only its type."""
    if isinstance(value, int) and value.bit_length() > 200:
        return f"<int of {value.bit_length()} bits>"  # repr refuses more than 4,300 digits
    if value is None or isinstance(value, str | int | float | timedelta):
        return shown(repr(value), _SHOWN_CHARACTERS)
    return f"<{type(value).__name__}>"


def mask_url(url: str) -> str:
    """Answer the URL without its passwords: `redis://user:***@host`. Never raises on a str.

    Everything up to the last `@` counts as credentials, so that a password with an unescaped `/`, `?`
    or `@` is hidden whole, even where that hides the host as well. URLs in parameters are masked too.
    """
    return shown(_masked(url))


def mask_urls(text: str) -> str:
    """Answer the text with the passwords of all URLs in it masked: for a driver's error, or a traceback."""
    return _URL_IN_TEXT.sub(lambda found: _masked(found[0]), text) if "://" in text else text


def _masked(url: str) -> str:
    text = url
    for _ in range(_UNWRAPPINGS):
        if not _ENCODED_URL.search(text):
            break
        text = unquote(text)
    return "".join(_without_password(part) for part in _NESTED_URL.split(text))


def _checked(name: object, kind: str, refusal: type[InvalidName]) -> str:
    if type(name) is str and name.isascii() and name.isprintable() and 0 < len(name) <= MAX_NAME_BYTES:
        return name  # as nearly all are: a byte per character, and none a control character
    fault = _name_fault(name) if isinstance(name, str) else "it is not a str"
    if fault is None:
        return str(name)
    got = f'"{shown(name, _SHOWN_CHARACTERS)}"' if isinstance(name, str) else type(name).__name__
    raise refusal(
        f"{kind} {got} is not allowed: {fault}; "
        f"use 1 to {MAX_NAME_BYTES} bytes of UTF-8 without control characters"
    )


def _name_fault(name: str) -> str | None:
    if not name:
        return "it is empty"
    if len(name) > MAX_NAME_BYTES:
        return f"it has {len(name)} characters"
    if _CONTROL.search(name):
        return "it has a control character"
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        return "it has a surrogate"
    return f"it has {size_bytes} bytes" if size_bytes > MAX_NAME_BYTES else None


def _shown_character(character: str) -> str:
    if character == "\\":
        return "\\\\"
    return character if character.isprintable() else character.encode("unicode_escape").decode("ascii")


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    credentials, at, place = rest.rpartition("@")
    user, colon, _ = credentials.partition(":")
    if not (at and colon):
        return _without_secret_parameters(url)
    if "@" not in _without_secret_parameters(rest):
        return f"{scheme}{separator}{user}:{MASK}"  # the last @ may belong to either: show neither
    return f"{scheme}{separator}{user}:{MASK}@{_without_secret_parameters(place)}"


def _without_secret_parameters(text: str) -> str:
    return _SECRET_PARAMETER.sub(rf"\g<1>{MASK}", text)
