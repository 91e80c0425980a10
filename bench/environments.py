"""A virtual environment for each set of packages, made when it is first needed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from bench.peers import Peer

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "bench"


def python_of(peer: Peer) -> Path:
    """Answer the Python that has this peer's packages."""
    digest = hashlib.sha256("\n".join(peer.requires).encode()).hexdigest()[:8]
    folder = BUILD / "environments" / f"{peer.name}-{digest}"
    python = folder / "bin" / "python"
    if not (folder / "made").exists():
        print(f"making an environment for {peer.name}: {' '.join(peer.requires)}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        words = [word for requirement in peer.requires for word in requirement.split()]
        subprocess.run(
            [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *words],
            check=True,
            cwd=ROOT,
        )
        (folder / "made").touch()
    return python
