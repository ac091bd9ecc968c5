"""The example project of docs/testing.md: its tests pass with the plugin, and fail without what they test."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "testing"
TIMEOUT_S = 280


def run_tests(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "ottla.pytest", "-p", "no:cacheprovider", "-q", *words]
    return subprocess.run(
        [*command, f"--basetemp={project / 'temporary'}"],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the example."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("__pycache__")))


def test_its_quick_tests_pass(project: Path) -> None:
    run = run_tests(project, "-k", "not billing and not cluster and not slow")
    assert run.returncode == 0, run.stdout
    assert "6 passed" in run.stdout


@pytest.mark.long
def test_all_its_tests_pass_by_two_processes(project: Path) -> None:
    run = run_tests(project, "-n2")
    assert run.returncode == 0, run.stdout
    assert "10 passed" in run.stdout


@pytest.mark.long
def test_its_tests_see_a_shop_that_is_not_idempotent(project: Path) -> None:
    shop = project / "order_service" / "shop.py"
    shop.write_text(shop.read_text().replace('"enable.idempotence": True', '"enable.idempotence": False'))
    run = run_tests(project, "-k", "answer_is_lost")
    assert run.returncode == 1 and "1 failed" in run.stdout
