"""A pytest plugin of the mutants' runner: stops the run unless the planted tree is the one imported."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest


def pytest_configure() -> None:
    """Compare where the package came from with where the fault was planted."""
    package, tree = os.environ["MUTANT_PACKAGE"], Path(os.environ["MUTANT_TREE"]).resolve()
    imported = Path(str(importlib.import_module(package).__file__)).resolve()
    if not imported.is_relative_to(tree):
        raise pytest.UsageError(f"{package} was imported from {imported}, not from the planted tree {tree}")
