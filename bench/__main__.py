"""`python -m bench BACKEND [MEASURE ...]`: measure, print a table, keep every sample."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from bench import rounds
from bench.environments import BUILD
from bench.peers import OURS, PEERS

SLOW, FAST = 8_000, 40_000  # jobs a round; whoever is fast gets more of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One measure: how it is taken, which figure is compared, whether less is better, and of whom."""

    measure: rounds.Measure
    figure: str
    jobs: Mapping[str, int]
    less_is_better: bool = False
    only_ours: bool = False


FOR_DRAINS = {"default": SLOW, OURS: FAST, "pgqueuer": FAST, "procrastinate": 2_000}
RATE = "jobs_per_s"
KINDS: Mapping[str, Kind] = {
    "drain": Kind(measure=rounds.drain, figure=RATE, jobs=FOR_DRAINS),
    "drain-2": Kind(measure=partial(rounds.drain, processes=2), figure=RATE, jobs=FOR_DRAINS),
    "work-1": Kind(measure=partial(rounds.drain, work_ms=1.0), figure=RATE, jobs={"default": 4_000}),
    "work-2": Kind(
        measure=partial(rounds.drain, processes=2, work_ms=1.0), figure=RATE, jobs={"default": 4_000}
    ),
    "single": Kind(measure=partial(rounds.enqueue, action="single"), figure=RATE, jobs={"default": 4_000}),
    "gathered": Kind(
        measure=partial(rounds.enqueue, action="gathered"),
        figure=RATE,
        jobs={"default": SLOW, OURS: FAST},
    ),
    "bulk": Kind(
        measure=partial(rounds.enqueue, action="fill"),
        figure=RATE,
        jobs={"default": SLOW, OURS: FAST, "pgqueuer": FAST},
    ),
    "bytes": Kind(
        measure=rounds.waiting_bytes, figure="bytes", less_is_better=True, jobs={"default": 40_000}
    ),
    "through": Kind(measure=rounds.through, figure="last_to_second", jobs={"default": 2_000_000}),
    "depth": Kind(
        measure=rounds.depth,
        figure="deep_to_shallow",
        jobs={"default": SLOW, OURS: FAST, "pgqueuer": 20_000},
    ),
    "sleepers": Kind(measure=rounds.sleepers, figure="share", only_ours=True, jobs={"default": 2_000}),
    "latency": Kind(measure=rounds.latency, figure="p50_ms", less_is_better=True, jobs={"default": 300}),
}


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("backend", choices=PEERS)
    parser.add_argument("measures", nargs="*", help=f"of {', '.join(KINDS)}; the first without any")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peers", help="names, separated by commas; all without it")
    parser.add_argument("--scale", type=float, default=1.0, help="times as many jobs")
    asked = parser.parse_args()
    if unknown := set(asked.measures) - set(KINDS):
        parser.error(f"no measure is named {min(unknown)}")
    names = asked.peers.split(",") if asked.peers else None
    peers = [peer for peer in PEERS[asked.backend] if names is None or peer.name in names]
    for name in asked.measures or ("drain",):
        kind = KINDS[name]
        jobs = {who: int(number * asked.scale) for who, number in kind.jobs.items()}
        taking = [peer for peer in peers if peer.name == OURS or not kind.only_ours]
        found = rounds.interleaved(taking, asked.backend, jobs, asked.rounds, kind.measure)
        _keep(asked.backend, name, found)
        print(table(f"{asked.backend} {name}", kind, found), flush=True)
    return 0


def table(title: str, kind: Kind, found: Sequence[rounds.Outcome]) -> str:
    """Answer the medians, best first, each beside LeaseMQ's."""
    figures = list(found[0].samples[0])
    ordered = sorted(found, key=lambda one: one.median(kind.figure), reverse=not kind.less_is_better)
    ours = next((one for one in found if one.peer == OURS), None)
    head = "".join(f"{name:>16}" for name in figures)
    lines = [f"\n{title}: medians of {len(found[0].samples)} rounds", f"{'':<16}{head}{'leasemq /':>12}"]
    for one in ordered:
        cells = "".join(f"{one.median(name):>16,.2f}" for name in figures)
        ratio = "" if ours is None else f"{ours.median(kind.figure) / one.median(kind.figure):>12.2f}"
        lines.append(f"{one.peer:<16}{cells}{ratio}")
    return "\n".join(lines)


def _keep(backend: str, measure: str, found: Sequence[rounds.Outcome]) -> None:
    folder = BUILD / "samples"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{backend}-{measure}.json"
    path.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
