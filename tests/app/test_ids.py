"""Ids that the client makes: UUIDv7, growing, different in every thread and every forked child."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from leasemq.client.ids import Ids, new_job_id, new_request_number
from leasemq.testing.manual_clock import ManualClock


@pytest.mark.promise("P-40")
def test_an_id_is_a_uuid_of_version_7_that_carries_the_time() -> None:
    clock = ManualClock()
    made = UUID(Ids(clock).new())
    assert (made.version, made.variant) == (7, "specified in RFC 4122")
    assert made.int >> 80 == clock()


@pytest.mark.promise("P-40")
def test_ids_grow_within_a_millisecond_and_while_the_clock_steps_back() -> None:
    clock = ManualClock()
    ids = Ids(clock)
    made = [ids.new() for _ in range(1_000)]
    clock.step(-3_600_000)
    made += [ids.new() for _ in range(1_000)]
    assert made == sorted(set(made))


def test_ids_grow_past_the_last_one_that_a_millisecond_has_room_for() -> None:
    ids = Ids(ManualClock(), random_bits=lambda count: (1 << count) - 1)
    made = [UUID(ids.new()).int for _ in range(5)]
    assert made == sorted(set(made))
    full = Ids(ManualClock(), random_bits=lambda count: (1 << count) - 1)
    full._tail = 1 << 80  # more than a millisecond holds
    full._newest_ms = ManualClock()()
    assert UUID(full.new()).int >> 80 == ManualClock()() + 1


@pytest.mark.promise("P-40")
def test_ids_of_many_threads_differ() -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: new_job_id(), range(8_000)))
    assert len(set(made)) == 8_000


@pytest.mark.promise("P-40", "B43")
def test_ids_of_forked_children_differ() -> None:
    new_job_id()
    made = [new_job_id()]
    for _ in range(4):
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write_end, "\n".join(new_job_id() for _ in range(50)).encode())
            os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end) as pipe:
            made += pipe.read().split("\n")
        os.waitpid(child, 0)
    assert len(set(made)) == 201


def test_request_numbers_fit_into_63_bits_and_differ() -> None:
    made = {new_request_number() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(0 <= number < 2**63 for number in made)
