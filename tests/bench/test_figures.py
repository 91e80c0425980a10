"""What the benchmarks compute from what they saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import figures
from bench.__main__ import KINDS, Kind, table
from bench.drivers import board
from bench.drivers.board import Seen
from bench.peers import OURS, PEERS, Peer
from bench.rounds import Outcome, interleaved
from bench.servers import ground

SECOND = 1_000_000_000


def seen(count: int, first_s: float, last_s: float, cpu_s: float = 0.0, server_s: float = 0.0) -> Seen:
    """What one process told."""
    times = (first_s, last_s, cpu_s, server_s)
    return Seen(count, *(int(time * SECOND) for time in times))


def peer(name: str) -> Peer:
    """A contender that is never run."""
    return Peer(name=name, driver="none.py", requires=())


def test_a_rate_counts_the_jobs_after_the_first_handler() -> None:
    found = figures.drained([seen(101, 10, 12, cpu_s=0.5, server_s=0.25)])
    assert found["jobs_per_s"] == pytest.approx(50)
    assert found["cpu_ms"] == pytest.approx(500 / 101 * 1_000)
    assert found["server_cpu_ms"] == pytest.approx(250 / 101 * 1_000)


def test_two_processes_are_one_rate_from_the_first_of_both_to_the_last_of_both() -> None:
    found = figures.drained([seen(60, 11, 14, cpu_s=1), seen(41, 10, 13, cpu_s=1)])
    assert found == {"jobs_per_s": pytest.approx(25)}


@pytest.mark.parametrize(
    ("percent", "number", "expected"), [(50, 100, 50), (99, 100, 99), (50, 3, 2), (99, 3, 3), (99, 1, 1)]
)
def test_a_percentile_is_the_smallest_value_that_so_many_do_not_exceed(
    percent: int, number: int, expected: int
) -> None:
    assert figures.percentile(range(1, number + 1), percent) == expected


def test_lateness_is_told_in_milliseconds_whatever_the_order_of_the_samples() -> None:
    assert figures.lateness([9_000_000, 1_000_000, 2_000_000]) == {"p50_ms": 2.0, "p99_ms": 9.0}


def test_quarters_go_from_the_mark_nearest_to_their_beginning_to_the_one_nearest_to_their_end() -> None:
    marks = [(0, 0.0), (24, 1.0), (51, 3.0), (75, 4.0), (100, 9.0)]
    found = figures.quarters(marks, 100)
    assert found == {
        "quarter_1": pytest.approx(24),
        "quarter_2": pytest.approx(13.5),
        "quarter_3": pytest.approx(24),
        "quarter_4": pytest.approx(5),
        "last_to_second": pytest.approx(5 / 13.5),
    }


def test_slots_that_are_never_empty_have_a_share_of_one() -> None:
    waves = figures.slot_share([seen(2_000, 5.05, 6.0)], slots=100, sleep_s=0.05)
    assert waves["share"] == pytest.approx(1)
    late = figures.slot_share([seen(2_000, 5.05, 7.0)], slots=100, sleep_s=0.05)
    assert late["share"] == pytest.approx(0.5)


def test_a_board_tells_of_each_process_that_ran_anything(tmp_path: Path) -> None:
    place = tmp_path / "board"
    board.create(place)
    assert board.read(place) == []
    told = board.Board(str(place), row=2, jobs=3, server_pids=())
    for _ in range(3):
        told.ran()
    (row,) = board.read(place)
    assert row.count == 3
    assert row.first_ns < row.last_ns
    assert row.cpu_ns > 0


def test_every_peer_runs_once_a_round_and_another_one_goes_first_each_time() -> None:
    turns: list[tuple[str, int]] = []

    def measure(one: Peer, backend: str, jobs: int) -> figures.Sample:
        turns.append((one.name, jobs))
        return {"rate": float(len(turns))}

    found = interleaved([peer("a"), peer("b")], "memory", {"default": 5, "b": 7}, 3, measure)
    assert turns == [("a", 5), ("b", 7), ("b", 7), ("a", 5), ("a", 5), ("b", 7)]
    assert [(one.peer, one.median("rate")) for one in found] == [("a", 4), ("b", 3)]


def test_the_table_has_the_best_first_and_ours_over_each() -> None:
    outcomes = [
        Outcome(peer=OURS, samples=({"rate": 10.0}, {"rate": 30.0}, {"rate": 20.0})),
        Outcome(peer="fast", samples=({"rate": 40.0},) * 3),
    ]
    kind = Kind(measure=lambda one, backend, jobs: {}, figure="rate", jobs={"default": 1})
    lines = [line.split() for line in table("memory drain", kind, outcomes).splitlines()[-2:]]
    assert lines == [["fast", "40.00", "0.50"], [OURS, "20.00", "1.00"]]


def test_the_table_puts_the_least_first_where_less_is_better() -> None:
    outcomes = [Outcome(peer=name, samples=({"ms": ms},)) for name, ms in ((OURS, 4.0), ("quick", 2.0))]
    kind = Kind(measure=lambda one, backend, jobs: {}, figure="ms", jobs={"default": 1}, less_is_better=True)
    assert [line.split()[0] for line in table("x", kind, outcomes).splitlines()[-2:]] == ["quick", OURS]


def test_every_backend_measures_leasemq_first_and_every_measure_has_a_number_of_jobs() -> None:
    assert {peers[0].name for peers in PEERS.values()} == {OURS}
    assert all("default" in kind.jobs for kind in KINDS.values())


def test_what_a_store_takes_on_disk_is_told() -> None:
    with ground("sqlite-full") as here:
        before = here.disk_bytes()
        (here.folder / "jobs.db").write_bytes(bytes(1_000_000))
        assert here.disk_bytes() - before >= 1_000_000
