"""The units of systemd: commands that ottla has, and nothing that systemd does not know."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.cli.main import COMMANDS

UNITS = sorted((Path(__file__).parents[2] / "packaging" / "systemd").glob("*.service"))


def service(unit: Path) -> configparser.SectionProxy:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(unit)
    return parser["Service"]


def test_there_is_a_unit_for_each_server() -> None:
    assert {unit.stem for unit in UNITS} == {"ottla", "ottla-registry", "ottla-rest"}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_and_gives_its_clean_stop_the_time(unit: Path) -> None:
    found = service(unit)
    program, command, *words = found["ExecStart"].split()
    assert program == "/opt/ottla/bin/ottla" and command in COMMANDS
    assert words[0] == "--config" and words[1].startswith("/etc/ottla/")
    assert found["KillSignal"] == "SIGTERM" and int(found["TimeoutStopSec"]) >= 30
    assert found["User"] == "ottla" and found["NoNewPrivileges"] == "yes"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not here")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    # given: a program that is there, in place of /opt/ottla
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/ottla/bin/ottla", "/bin/true"))
    run = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False
    )
    told = [line for line in run.stderr.splitlines() if unit.stem in line]
    assert run.returncode == 0 and told == [], run.stderr
