"""docs/sql.md: its table of functions is up to date, and has all of ksqlDB's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]


def test_the_page_has_every_function_of_ksqldb_as_it_is() -> None:
    command = [sys.executable, str(REPOSITORY / "tools" / "generate_sql.py"), "--check"]

    assert subprocess.run(command, check=False).returncode == 0
