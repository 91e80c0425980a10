"""Runs pytest once for each line it reads, in a fork of a process that has imported what every run needs.

A run of a planted fault takes about a second, and a third of that went into the same imports. Nothing of
the package under test is imported here, so that each fork finds the tree with its own fault.

In: one JSON object a line, `arguments`, `environment`, `paths` (before all others), `folder` and `log`.
Out: the process id of the fork, and when it has ended, its exit code; a line each.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import sys
import traceback
from contextlib import suppress
from typing import Any

WANTED = (
    *("pytest", "hypothesis", "pytest_asyncio.plugin", "pytest_timeout", "xdist.plugin", "blockbuster"),
    *("msgspec", "click.testing", "cronsim", "asyncio", "sqlite3", "concurrent.futures", "logging.handlers"),
)


def main() -> None:
    """Fork for each request until the input ends."""
    for name in WANTED:
        with suppress(ImportError):  # a run that needs it will say so
            importlib.import_module(name)
    gc.freeze()
    while line := sys.stdin.readline():
        process_id = os.fork()
        if process_id == 0:
            os._exit(_run(json.loads(line)))
        print(process_id, flush=True)
        _, status = os.waitpid(process_id, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(request: dict[str, Any]) -> int:
    """Become what `python -m pytest` in that folder would be, and answer its exit code."""
    os.setsid()
    os.chdir(request["folder"])
    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        opened = os.open(name, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    os.dup2(1, 2)
    os.environ.update(request["environment"])
    sys.path[:0] = request["paths"]
    sys.argv = ["pytest", *request["arguments"]]
    sys.dont_write_bytecode = True
    random.seed()
    import pytest

    try:
        return int(pytest.main(request["arguments"]))
    except BaseException:  # as an interpreter would end with it; a fault can bring that about at the very end
        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


if __name__ == "__main__":
    main()
