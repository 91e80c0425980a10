"""One demo from beginning to end: the folder, the run, the judgement, what is printed, the exit code."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from leasemq.demo.answers import ask_queue
from leasemq.demo.course import Course
from leasemq.demo.crew import Crew
from leasemq.demo.judge import Judgement, judged
from leasemq.demo.ledger import Ledger, Ledgers
from leasemq.demo.material import Piece, bytes_per_ms, copied_pieces, written_pieces
from leasemq.demo.plan import FEWEST, MOST, USUAL, planned
from leasemq.demo.producer import Producer
from leasemq.demo.sabotage import Sabotage
from leasemq.demo.screen import Screen, table
from leasemq.demo.watch import Watch
from leasemq.demo.work import LEASE_S, Checksums
from leasemq.errors import InvalidSetting

_DISMISS_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a run keeps everything: a temporary folder of its own."""

    folder: Path

    @property
    def url(self) -> str:
        """The queue."""
        return f"sqlite:///{self.folder / 'jobs.db'}?sync=full"

    def made(self, name: str) -> Path:
        """A folder below, made if it is not there."""
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return path


def run_demo(folder: Path | None, sabotage: str | None, jobs: int | None, as_json: bool) -> int:
    """Run the demo and answer the exit code: 0 if nothing was lost and every safeguard held.

    Args:
        folder: whose files are summed up; None: some that the demo writes itself.
        sabotage: the safeguard to switch off, `fence` or `recover`; the demo must then end with 1.
        jobs: 20 to 10,000; None: 200.
        as_json: print one JSON object in place of the display and the table.

    Raises: InvalidSetting.
    """
    count = USUAL if jobs is None else jobs
    if not FEWEST <= count <= MOST:
        raise InvalidSetting(f"jobs={count} is not a whole number from {FEWEST} to {MOST:,}")
    which = _sabotage(sabotage)
    place = Place(folder=Path(tempfile.mkdtemp(prefix="leasemq-demo-")))
    keeps = True
    try:
        with _signals_end_it():
            pieces = _pieces(place, folder, count)
            judgement = _performed(place, pieces, which, count, as_json=as_json)
        keeps = bool(judgement.faults) and which is None
    except (KeyboardInterrupt, InvalidSetting):
        keeps = False
        raise
    finally:
        if keeps:
            print(f"everything it wrote is kept in {place.folder}", file=sys.stderr)
        else:
            shutil.rmtree(place.folder, ignore_errors=True)
    _print_judgement(judgement, as_json=as_json)
    return 1 if judgement.faults else 0


def _sabotage(name: str | None) -> Sabotage | None:
    try:
        return None if name is None else Sabotage(name)
    except ValueError:
        raise InvalidSetting(f"sabotage={name!r} is not one of {', '.join(Sabotage)}") from None


def _pieces(place: Place, folder: Path | None, count: int) -> list[Piece]:
    files = place.made("files")
    if folder is None:
        return written_pieces(files, min(count, USUAL))
    if not folder.is_dir():
        raise InvalidSetting(
            f"{str(folder)!r} is not a folder; name one, or none: the demo then writes its own files"
        )
    return copied_pieces(folder, files, count)


def _performed(
    place: Place, pieces: list[Piece], which: Sabotage | None, count: int, *, as_json: bool
) -> Judgement:
    """Run it all, and judge what was written down."""
    ledgers = place.made("ledgers")
    hold = place.folder / "hold"
    arguments = ["--url", place.url, "--ledgers", str(ledgers), "--hold", str(hold)]
    if which is not None:
        arguments += ["--sabotage", which.value]
    out = sys.stderr if as_json else sys.stdout
    screen = Screen(out, is_live=out.isatty())
    ledger = Ledger(ledgers, "demo")
    orders = planned(pieces, count, bytes_per_ms())
    producing = Producer(Checksums(place.url, ledger), orders, ledger, Ledgers(ledgers))
    with producing as producer, Crew(arguments, place.made("logs")) as crew:
        watch = Watch(Ledgers(ledgers), crew, screen, count, producer.check)
        off = "" if which is None else f", with the safeguard {which.value!r} switched off"
        watch.tell(
            f"{count} jobs, each the SHA-256 of one of {len(pieces)} files; SQLite at sync=full in "
            f"{place.folder}; two worker processes, leases of {LEASE_S} s{off}"
        )
        course = Course(
            crew=crew,
            watch=watch,
            producer=producer,
            ledger=ledger,
            orders=orders,
            hold=hold,
        )
        course.run()
        for name in crew.dismiss(_DISMISS_S):
            watch.tell(f"{name} did not stop when told to, and was killed")
        watch.tell("the workers are gone; the ledgers are read")
        screen.draw([])
    return judged(Ledgers(ledgers).look(), ask_queue(place.url))


@contextmanager
def _signals_end_it() -> Iterator[None]:
    """SIGTERM and SIGHUP end the demo as Ctrl-C does: with its processes and its folder gone."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    ending = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in ending]
    try:
        yield
    finally:
        for number, then in zip(ending, before, strict=True):
            signal.signal(number, then)


def _print_judgement(judgement: Judgement, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**asdict(judgement), "faults": judgement.faults}))
        return
    causes = ", ".join(f"{cause} {count}" for cause, count in judgement.second_runs.items())
    rows = [
        ("accepted", judgement.accepted, "ids whose enqueue returned"),
        ("completed", judgement.completed, "with a finished run in a ledger, and so in the queue"),
        ("runs", judgement.runs, "starts in the workers' ledgers"),
        ("second runs", sum(judgement.second_runs.values()), f"explained by: {causes or '-'}"),
        ("stalls", judgement.stalls, "leases that ran out, recovered by a sweep (asked of the queue)"),
        ("stale writes refused", judgement.stale_refused, "(asked of the queue)"),
        ("stale results accepted", judgement.stale_accepted, "results older than the newest run"),
        ("wrong results", judgement.wrong_results, "checksums that are not the file's"),
    ]
    print()
    for line in table([(name, str(value), source) for name, value, source in rows]):
        print(line)
    for fault in reversed(judgement.faults or ("lost 0",)):  # the last line says the gravest
        print(fault)
