"""The pages of docs/reference are those that the tables of settings give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
TOOL = REPOSITORY / "tools" / "generate_reference.py"


def test_the_reference_is_as_the_tables_say() -> None:
    checked = subprocess.run(
        [sys.executable, str(TOOL), "--check"], capture_output=True, text=True, timeout=120, check=False
    )
    assert checked.returncode == 0, checked.stderr
