"""docs/commands.md and the manual pages say what the commands say."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
TOOL = REPOSITORY / "tools" / "generate_commands.py"
MANUAL = REPOSITORY / "docs" / "man"


def test_the_words_of_the_page_and_the_manual_are_those_of_the_commands() -> None:
    checked = subprocess.run(
        [sys.executable, str(TOOL), "--check"], capture_output=True, text=True, timeout=120, check=False
    )
    assert checked.returncode == 0, f"{checked.stderr}\nmake commands"


@pytest.mark.system("mandoc")
def test_the_manual_pages_are_well_formed() -> None:
    checked = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning", *map(str, sorted(MANUAL.glob("*.1")))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    # Pages without a date are the same whenever they are written.
    assert [line for line in checked.stdout.splitlines() if "missing date" not in line] == []


@pytest.mark.skipif(shutil.which("man") is None, reason="needs man")
def test_a_manual_page_shows_the_commands_words() -> None:
    shown = subprocess.run(
        ["man", "-l", str(MANUAL / "ottla-quorum.1")],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LANG": "C.UTF-8", "MAN_KEEP_FORMATTING": ""},
    ).stdout
    text = " ".join(shown.split())
    assert "ottla quorum status [OPTIONS]" in text
    assert "--bootstrap HOST:PORT,…" in text and "EXIT STATUS" in text
