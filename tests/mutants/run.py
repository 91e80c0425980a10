"""Plants each fault of `*.toml` in a copy of the package and sees whether the tests it names find it out.

A fault is killed when a test fails that names one of the promises the fault breaks. A fault that survives,
cannot be planted, or stops the tests from running at all makes the run fail. Whether the tests pass without
a fault is not asked here: that is what the ordinary run is for.

    python tests/mutants/run.py [--only NAME-OR-PATTERN] [--list]
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
AT_ONCE = 2
LIMIT_S = 120
BACKENDS = {"backends/postgres/": "postgres", "backends/redis/": "redis"}  # whose faults they are about
HANG_S = 8  # how long one test may take where the fault is known to make tests hang
TAIL_LINES = 15

REQUIRED = {"name", "promise", "file", "find", "replace", "tests"}
OPTIONAL = {"backends", "count", "hang", "limit_s"}


class Fate(StrEnum):
    """What became of a planted fault."""

    KILLED = "killed"
    SURVIVED = "survived"
    BROKEN = "broken"


class BadMutant(Exception):
    """A fault that is badly described or can no longer be planted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Where the package and its tests are. `source` holds the package's folder."""

    root: Path
    source: Path
    package: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One fault: in `file`, `find` (found `count` times) becomes `replace`, which breaks the promises."""

    name: str
    promises: tuple[str, ...]
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    count: int = 1
    hang: bool = False
    limit_s: float = LIMIT_S
    backends: str = ""  # those that the tests are run on, with commas; by default what the file is about

    @property
    def asked(self) -> str:
        """The backends to run the tests on."""
        of_file = [name for folder, name in BACKENDS.items() if self.file.startswith(folder)]
        return self.backends or ",".join(of_file) or "memory,sqlite"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What became of one fault; `kills` are promise -> backends on which a test naming it failed."""

    mutant: Mutant
    fate: Fate
    detail: str = ""
    kills: dict[str, list[str]] = field(default_factory=dict)


def load(folder: Path) -> list[Mutant]:
    """All faults described in a folder, in file order.

    Raises:
        BadMutant: A field is missing, unknown or empty, or a name is used twice.
    """
    mutants: list[Mutant] = []
    for file in sorted(folder.glob("*.toml")):
        document = tomllib.loads(file.read_text(encoding="utf-8"))
        mutants += [_mutant(file.name, entry) for entry in document.get("mutant", [])]
    names = [mutant.name for mutant in mutants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadMutant(f"names used twice: {', '.join(twice)}")
    return mutants


def plant(mutant: Mutant, project: Project, tree: Path) -> None:
    """Copy the package's source to a new tree and put the fault in.

    Raises:
        BadMutant: The file is not there, or the text is not in it as often as told.
    """
    shutil.copytree(project.source, tree)  # with what is compiled already: most of a short run is compiling
    file = tree / project.package / mutant.file
    if not file.is_file():
        raise BadMutant(f"{mutant.name}: there is no file {mutant.file!r} in the package")
    text = file.read_text(encoding="utf-8")
    found = text.count(mutant.find)
    if found != mutant.count:
        raise BadMutant(
            f"{mutant.name}: the text to find is {found} times in {mutant.file}, not {mutant.count};"
            " bring `find` up to date with the source"
        )
    if mutant.find == mutant.replace:
        raise BadMutant(f"{mutant.name}: `replace` is the same as `find`, so nothing is planted")
    file.write_text(text.replace(mutant.find, mutant.replace), encoding="utf-8")
    for compiled in file.parent.glob(f"__pycache__/{file.stem}.*"):  # of the text without the fault
        compiled.unlink()


class Warm:
    """A process that forks for each run, so that imports are paid for once. Owner: one thread at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "warm.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def run(self, request: dict[str, Any], limit_s: float) -> int | None:
        """Answer the exit code; None when the run had to be ended."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        process_id = self._told()
        assert self._process.stdout is not None
        in_time, _, _ = select.select([self._process.stdout], [], [], limit_s)
        if not in_time:
            _end(process_id)
        exit_code = self._told()
        _end(process_id)
        return exit_code if in_time else None

    def close(self) -> None:
        """End the process, which runs nothing now."""
        with self._process:  # closes both pipes; without its input the process ends
            pass

    def _told(self) -> int:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BadMutant("the process that runs the tests ended")
        return int(line)


def attempt(mutant: Mutant, project: Project, warm: Warm) -> Finding:
    """Plant one fault in a tree of its own, run its tests against that tree, and judge."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder) / "src"
        try:
            plant(mutant, project, tree)
        except BadMutant as error:
            return Finding(mutant=mutant, fate=Fate.BROKEN, detail=str(error))
        results, log = Path(folder) / "results.json", Path(folder) / "log"
        exit_code = _run(mutant, project, tree, results, log, warm)
        return _judge(mutant, exit_code, results, log)


def chosen(mutants: Sequence[Mutant], only: str | None, part: str | None = None) -> list[Mutant]:
    """The faults whose name matches a comma-separated list of names or patterns; all without one.

    `part` is NUMBER/COUNT: they are dealt out into so many parts, and this one is taken. Any number will do.

    Raises:
        BadMutant: Nothing matches.
    """
    if part:
        number, count = (int(word) for word in part.split("/"))
        return list(mutants)[number % count :: count]
    if not only:
        return list(mutants)
    patterns = [pattern.strip() for pattern in only.split(",")]
    found = [mutant for mutant in mutants if any(fnmatchcase(mutant.name, pattern) for pattern in patterns)]
    if not found:
        raise BadMutant(f"no mutant is named {only!r}; `--list` prints the names")
    return found


def attempt_all(mutants: Sequence[Mutant], project: Project) -> Iterator[Finding]:
    """Each fault's finding, as it becomes known."""
    idle: queue.SimpleQueue[Warm] = queue.SimpleQueue()

    def in_turn(mutant: Mutant) -> Finding:
        warm = idle.get()
        try:
            return attempt(mutant, project, warm)
        finally:
            idle.put(warm)

    with ExitStack() as stack:
        for _ in range(AT_ONCE):
            idle.put(stack.enter_context(closing(Warm())))
        pool = stack.enter_context(ThreadPoolExecutor(max_workers=AT_ONCE))
        for done in as_completed([pool.submit(in_turn, mutant) for mutant in mutants]):
            yield done.result()


@contextmanager
def depot() -> Iterator[None]:
    """Have the servers that tests ask for started once for all runs, and ended."""
    sys.path.insert(0, str(HERE.parents[1]))  # this file is run as a script
    from tests.servers.depot import DEPOT, Depot

    if DEPOT in os.environ:
        yield
        return
    with closing(Depot()):
        yield


def kill_records(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """What the promise table reads: one record per fault and promise it was killed by."""
    return [
        {"mutant": finding.mutant.name, "promise": promise, "backends": backends}
        for finding in sorted(findings, key=lambda finding: finding.mutant.name)
        for promise, backends in sorted(finding.kills.items())
    ]


def main(
    arguments: Sequence[str] | None = None, *, project: Project | None = None, folder: Path = HERE
) -> int:
    """Run the chosen faults, print each one's fate, write the kills, and answer the exit code."""
    project = project or Project(root=HERE.parents[1], source=HERE.parents[1] / "src", package="leasemq")
    options = _options(arguments)
    try:
        mutants = chosen(load(folder), options.only, options.part)
    except BadMutant as error:
        print(error)
        return 1
    if options.list:
        print("\n".join(f"{mutant.name}  {' '.join(mutant.promises)}" for mutant in mutants))
        return 0
    findings = []
    with depot():
        for finding in attempt_all(mutants, project):
            findings.append(finding)
            print(_line(finding), flush=True)
    _write(project.root / "build" / "mutants.json", findings, is_all=not (options.only or options.part))
    fates = [finding.fate for finding in findings]
    for finding in findings:  # once more, where the end of a long log shows them
        if finding.fate is not Fate.KILLED:
            print(_line(finding))
    print("mutants: " + ", ".join(f"{fates.count(fate)} {fate}" for fate in Fate))
    return 0 if all(fate is Fate.KILLED for fate in fates) else 1


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Plant faults and see whether the tests find them out.")
    parser.add_argument("--only", metavar="NAME", help="names or patterns, separated by commas")
    parser.add_argument("--part", metavar="NUMBER/COUNT", help="one of so many parts, such as 7/3")
    parser.add_argument("--list", action="store_true", help="print names and promises, run nothing")
    return parser.parse_args(arguments)


def _mutant(file: str, entry: dict[str, Any]) -> Mutant:
    label = f"{file}: {entry.get('name', 'a mutant without a name')}"
    missing, unknown = REQUIRED - set(entry), set(entry) - REQUIRED - OPTIONAL
    if missing or unknown:
        raise BadMutant(f"{label}: missing {sorted(missing)}, unknown {sorted(unknown)}")
    if not entry["promise"] or not entry["tests"] or not entry["find"]:
        raise BadMutant(f"{label}: `promise`, `tests` and `find` must not be empty")
    known = {key: value for key, value in entry.items() if key not in ("promise", "tests")}
    return Mutant(promises=tuple(entry["promise"]), tests=tuple(entry["tests"]), **known)


def _run(mutant: Mutant, project: Project, tree: Path, results: Path, log: Path, warm: Warm) -> int | None:
    """The exit code of pytest on the planted tree; None when it had to be ended."""
    arguments = [
        *("-q", "--no-header", "--tb=line", "-p", "no:cacheprovider"),
        "--assert=plain",  # rewriting the asserts of every module takes longer than most of these runs
        *("-p", "mutant_witness", "-p", "leasemq.testing.promise_recorder", f"--promises-out={results}"),
        f"--timeout={HANG_S if mutant.hang else 0}",
        *(part for test in mutant.tests for part in _arguments(test)),
    ]
    before = os.environ.get("PYTHONPATH", "")
    paths = [str(project.root), str(tree), str(HERE), *filter(None, before.split(os.pathsep))]
    environment = {
        "PYTHONPATH": os.pathsep.join(paths[1:]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MUTANT_PACKAGE": project.package,
        "MUTANT_TREE": str(tree),
        "LEASEMQ_TEST_BACKENDS": mutant.asked,
    }
    request = {
        "arguments": arguments,
        "environment": environment,
        "paths": paths,
        "folder": str(project.root),
        "log": str(log),
    }
    return warm.run(request, mutant.limit_s)


def _end(process_id: int) -> None:
    """End what the run left behind: its session is its own, so nobody else's process is in the group."""
    with suppress(ProcessLookupError):
        os.killpg(process_id, signal.SIGKILL)


def _arguments(test: str) -> list[str]:
    """A node id or path as it stands (it may hold spaces); an option such as `-k fence` in two."""
    return test.split(maxsplit=1) if test.startswith("-") else [test]


def _judge(mutant: Mutant, exit_code: int | None, results: Path, log: Path) -> Finding:
    if exit_code is None and mutant.hang:
        return Finding(mutant=mutant, fate=Fate.KILLED, detail="hung, which proves no promise by itself")
    if exit_code is None:
        detail = f"did not end within {mutant.limit_s} s; if that is what the fault does, say hang = true"
        return Finding(mutant=mutant, fate=Fate.BROKEN, detail=f"{detail}\n{_tail(log)}")
    if exit_code not in (0, 1) or not results.exists():
        detail = f"the tests did not run (pytest ended with {exit_code})"
        return Finding(mutant=mutant, fate=Fate.BROKEN, detail=f"{detail}\n{_tail(log)}")
    failed = [entry for entry in json.loads(results.read_bytes()) if entry["outcome"] == "failed"]
    kills = {
        promise: sorted({entry["backend"] for entry in failed if promise in entry["ids"]})
        for promise in mutant.promises
    }
    kills = {promise: backends for promise, backends in kills.items() if backends}
    if kills:
        return Finding(mutant=mutant, fate=Fate.KILLED, kills=kills)
    others = f"; failed all the same, naming another promise or none:\n{_tail(log)}" if exit_code else ""
    detail = f"no test naming {' or '.join(mutant.promises)} failed{others}"
    return Finding(mutant=mutant, fate=Fate.SURVIVED, detail=detail)


def _tail(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-TAIL_LINES:]
    return "\n".join(f"    {line}" for line in lines)


def _line(finding: Finding) -> str:
    kills = "; ".join(f"{promise} on {', '.join(names)}" for promise, names in finding.kills.items())
    return f"{finding.fate:<8}  {finding.mutant.name}  {kills or finding.detail}"


def _write(path: Path, findings: Sequence[Finding], *, is_all: bool) -> None:
    """Write the kills; a partial run replaces only what it ran."""
    records = kill_records(findings)
    if not is_all and path.exists():
        ran = {finding.mutant.name for finding in findings}
        records += [record for record in json.loads(path.read_bytes()) if record["mutant"] not in ran]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
