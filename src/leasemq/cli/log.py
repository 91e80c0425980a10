"""Where a worker's log goes: to stderr, and not into anything that the user has configured."""

from __future__ import annotations

import logging
import sys
from typing import Any

from leasemq.logs import JobFields, JsonFormatter, LineFormatter


def log_to_stderr(level: str, *, as_json: bool) -> None:
    """Write the library's own log to stderr; the root logger and its handlers are left alone.

    A program that configures no logging has its warnings printed by `logging.lastResort`, as bare texts. Here
    they look like the lines beside them, and say in which job they were written.
    """
    formatter: logging.Formatter = JsonFormatter() if as_json else LineFormatter()
    writer = _stderr(formatter)
    logger = logging.getLogger("leasemq")
    logger.addHandler(writer)
    logger.setLevel(level)
    logger.propagate = False
    last = _stderr(formatter)
    last.setLevel(logging.WARNING)
    logging.lastResort = last


def _stderr(formatter: logging.Formatter) -> logging.StreamHandler[Any]:
    writer: logging.StreamHandler[Any] = logging.StreamHandler(sys.stderr)
    writer.setFormatter(formatter)
    writer.addFilter(JobFields())
    return writer
