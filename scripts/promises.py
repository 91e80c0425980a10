"""Prints the table promise × backend of the last full test run (`make test` writes what it reads).

python scripts/promises.py [--totals | --markdown] [--at-least BACKEND[,BACKEND]=N]... [--require-tests]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from leasemq.testing.promises import (
    Row,
    as_markdown,
    as_text,
    promise_table,
    proven_everywhere,
    read_catalogue,
    read_kills,
    read_trials,
    totals,
    untested,
)

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "build" / "promises.json"
KILLS = ROOT / "build" / "mutants.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was asked for; 1 when there is no run to tell of, or it falls short of what was asked."""
    options = _options(arguments)
    if not RESULTS.exists():
        print(f"{RESULTS.relative_to(ROOT)} is missing: run `make test` first", file=sys.stderr)
        return 1
    catalogue = read_catalogue(ROOT / "tests" / "promises.toml")
    rows = promise_table(catalogue, read_trials(RESULTS), read_kills(KILLS))
    if options.markdown:
        print(as_markdown(rows))
        return 0
    if not options.totals:
        print(as_text(rows), end="\n\n")
    missing = untested(rows)
    for backend, ids in missing.items():
        print(f"delivered, and without a test on {backend}: {' '.join(ids)}")
    print(totals(rows))
    return _verdict(rows, missing, options)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Print the table promise × backend of the last test run.")
    parser.add_argument("--totals", action="store_true", help="only the totals")
    parser.add_argument("--markdown", action="store_true", help="the table for the documentation")
    parser.add_argument(
        "--at-least",
        action="append",
        default=[],
        metavar="BACKENDS=N",
        help="fail below N proven on each of these backends, named with commas between them",
    )
    parser.add_argument(
        "--require-tests", action="store_true", help="fail if a delivered promise has no test"
    )
    return parser.parse_args(arguments)


def _verdict(rows: Sequence[Row], missing: Mapping[str, Sequence[str]], options: argparse.Namespace) -> int:
    for asked in options.at_least:
        backends, _, least = asked.rpartition("=")
        proven = len(proven_everywhere(rows, backends.split(",")))
        if proven < int(least):
            print(f"{proven} promises are proven on {backends}, fewer than {least}", file=sys.stderr)
            return 1
    return 1 if missing and options.require_tests else 0


if __name__ == "__main__":
    sys.exit(main())
