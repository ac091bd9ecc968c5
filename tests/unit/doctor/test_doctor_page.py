"""docs/doctor.md says what the checks say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from ottla.doctor.checks.table import CHECKS
from ottla.doctor.reading.readers import READERS
from ottla.doctor.snapshot import PART_NAMES

REPOSITORY = Path(__file__).parents[3]


def test_the_page_is_up_to_date() -> None:
    checked = subprocess.run(
        [sys.executable, str(REPOSITORY / "tools" / "generate_doctor.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr


def test_every_part_has_a_reader_and_every_check_reads_parts_that_there_are() -> None:
    assert set(PART_NAMES) <= set(READERS)
    for check in CHECKS:
        assert {*check.reads, *check.also} <= set(PART_NAMES)
    assert len({check.name for check in CHECKS}) == len(CHECKS)
