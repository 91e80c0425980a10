"""Every key of a queue is in one slot, whatever the queue's name is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from leasemq.backends.redis.keys import (
    REGISTRY,
    SCHEDULES,
    STORE,
    WORKERS,
    channel,
    queue_prefix,
    tag_prefix,
    unescaped,
)

NAMES = st.text(st.sampled_from("{}%/:,a7BD5é"), min_size=1, max_size=12)
NAMED = ["mail", "sms", "push", "{mail}", "a{b}c", "{}x", "}", "{", "%", "%/registry"]


@pytest.mark.promise("P-95", "B17")
@pytest.mark.parametrize("queue", NAMED)
def test_all_keys_of_a_queue_are_in_one_slot(queue: str) -> None:
    prefix = queue_prefix("leasemq", queue)

    assert len({key_slot(prefix + rest) for rest in (b"", b"book", b"j:x", b"j:{other}", b"w:}")}) == 1


@pytest.mark.promise("P-95", "B17")
def test_queues_do_not_all_share_a_slot() -> None:
    assert len({key_slot(queue_prefix("leasemq", queue)) for queue in ("mail", "sms", "push")}) > 1


@pytest.mark.promise("P-95")
@given(NAMES, NAMES, NAMES, NAMES)
def test_no_two_queues_share_a_key(one: str, other: str, namespace: str, elsewhere: str) -> None:
    prefixes = queue_prefix(namespace, one), queue_prefix(elsewhere, other)

    assert (prefixes[0] == prefixes[1]) == ((namespace, one) == (elsewhere, other))
    assert not (prefixes[0] != prefixes[1] and prefixes[0].startswith(prefixes[1]))


@pytest.mark.promise("P-95")
@given(NAMES)
def test_no_queue_is_taken_for_what_is_ours(name: str) -> None:
    ours = [tag_prefix("leasemq", tag) for tag in (REGISTRY, WORKERS, SCHEDULES, STORE)]

    assert not any(queue_prefix("leasemq", name).startswith(prefix) for prefix in ours)
    assert not channel("leasemq").startswith(queue_prefix("leasemq", name))


@pytest.mark.promise("P-95")
@given(NAMES)
def test_a_tag_says_which_queue_it_is_of(name: str) -> None:
    tag = queue_prefix("leasemq", name).partition(b"{")[2].rpartition(b"}")[0]

    assert unescaped(tag.decode()) == name
