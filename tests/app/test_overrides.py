"""The policy that one job carries itself, as bytes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from leasemq import Retry
from leasemq.errors import CorruptRecord, InvalidSetting, UnknownEnvelope
from leasemq.protocol.envelope import encode_plain
from leasemq.protocol.overrides import NO_OVERRIDES, Overrides, decode_overrides, encode_overrides


def test_nothing_overridden_takes_no_bytes() -> None:
    assert encode_overrides(NO_OVERRIDES) == b""
    assert decode_overrides(b"") == NO_OVERRIDES


@pytest.mark.parametrize(
    "overrides",
    [
        Overrides(timeout_ms=1),
        Overrides(lease_ms=60_000),
        Overrides(retry=Retry(3, base=timedelta(seconds=2), cap=None), timeout_ms=5, lease_ms=7),
        Overrides(
            retry=Retry(None, delays=[timedelta(seconds=1)], cap=timedelta(hours=1), base=timedelta(0))
        ),
    ],
)
def test_what_was_stored_is_read_back(overrides: Overrides) -> None:
    assert decode_overrides(encode_overrides(overrides)) == overrides


@pytest.mark.promise("P-103")
def test_rules_by_exception_class_are_not_stored() -> None:
    with pytest.raises(InvalidSetting, match="retry_on"):
        encode_overrides(Overrides(retry=Retry(3, retry_on=OSError)))


@pytest.mark.promise("P-99")
@pytest.mark.parametrize(
    "stored",
    [
        b"{",
        b'{"v":1,"plain":3}',
        encode_plain({"code": "os.system"}, what="overrides"),
        encode_plain({"timeout_ms": -1}, what="overrides"),
        encode_plain({"timeout_ms": True}, what="overrides"),
        encode_plain({"lease_ms": "long"}, what="overrides"),
        encode_plain({"retry": {"v": 1}}, what="overrides"),
    ],
)
def test_bytes_that_make_no_sense_raise_naming_the_job(stored: bytes) -> None:
    with pytest.raises(CorruptRecord):
        decode_overrides(stored, job="inv-7")


@pytest.mark.promise("P-85")
def test_a_newer_release_s_policy_is_told_apart_from_nonsense() -> None:
    with pytest.raises(UnknownEnvelope):
        decode_overrides(encode_plain({"retry": {"v": 2}}, what="overrides"))
