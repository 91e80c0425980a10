"""What docs/operations.md says of the command line, systemd and Kubernetes is what the program takes."""

from __future__ import annotations

import configparser
import json
import re
import shlex
from pathlib import Path

import pytest

from leasemq.cli import commands
from leasemq.cli.running import EXITS
from leasemq.worker.settings import DRAIN_MS

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")


def block(kind: str) -> str:
    """The page's only block of this kind."""
    (found,) = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.M | re.S)
    return str(found)


def taken(line: list[str]) -> dict[str, object]:
    """What `leasemq worker` understands of a line, the program's name first."""
    assert line[1] == "worker"
    return commands.commands["worker"].make_context("worker", line[2:]).params


def test_the_unit_gives_the_worker_time_to_drain_and_signals_its_main_process_alone() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have capitals
    unit.read_string(block("ini"))
    service = unit["Service"]
    options = taken(shlex.split(service["ExecStart"]))
    assert options["app_name"] == "myapp:app"
    assert int(service["TimeoutStopSec"]) > float(str(options["drain"])) + 5
    assert (service["Type"], service["KillMode"]) == ("notify", "mixed")
    assert service["RestartPreventExitStatus"] == "2"


def test_the_pod_asks_where_the_worker_answers() -> None:
    pod = block("yaml")
    (command,) = re.findall(r"command: (\[.*\])", pod)
    options = taken(json.loads(command))
    asked = re.findall(r"path: (/\w+), port: (\d+)", pod)
    assert asked == [(path, str(options["probe_port"])) for path in ("/startup", "/ready", "/live")]
    assert options["probe_host"] == "0.0.0.0"  # noqa: S104  a probe comes from outside of the pod
    (grace_s,) = re.findall(r"terminationGracePeriodSeconds: (\d+)", pod)
    assert int(grace_s) > float(str(options["drain"])) + 5


@pytest.mark.promise("A-16")
def test_the_exit_codes_of_the_page_are_those_of_the_help() -> None:
    of_page = re.findall(r"^\| (\d+) \| ", PAGE, re.M)
    of_help = re.findall(r"^ +(\d+)  ", EXITS, re.M)
    assert of_page == of_help == ["0", "1", "2", "70", "75"]
    assert f"{DRAIN_MS // 1_000} s)" in PAGE
