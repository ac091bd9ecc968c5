"""The distributions of this source tree, built once for the tests of the packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]


class Built(NamedTuple):
    """The files that are published."""

    source: Path
    wheel: Path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Source distribution and wheel."""
    directory = tmp_path_factory.mktemp("built")
    tool = [sys.executable, str(ROOT / "tools" / "build_distributions.py"), str(directory)]
    run = subprocess.run(tool, capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode == 0, run.stderr
    source, wheel = map(Path, run.stdout.splitlines())
    return Built(source, wheel)
