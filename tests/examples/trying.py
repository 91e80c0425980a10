"""How an example is tried: by itself, in a folder of its own, as a reader would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LIMIT_S = 60


def tried(program: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder; every warning is an error."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("LEASEMQ_")}
    return subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=folder,
        env=given | {"PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
