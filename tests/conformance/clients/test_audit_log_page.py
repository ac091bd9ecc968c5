"""docs/security.md: the commands for trying out the audit log are run as they stand, but for the port."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from ottla.security.audit_chain import FIELDS
from support.servers.cluster import ServerProcess, free_port

PAGE = Path(__file__).parents[3] / "docs" / "security.md"
TIMEOUT_S = 60


def section() -> str:
    return PAGE.read_text().partition("\n## Audit log\n")[2].partition("\n## ")[0]


def test_the_commands_for_trying_out_the_audit_log(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    key, broker, *others = [line.strip() for line in section().splitlines() if line.startswith("    ")]

    def run(line: str) -> str:
        line = line.replace("ottla ", f"{shlex.quote(sys.executable)} -m ottla ", 1)
        done = subprocess.run(
            line,
            shell=True,
            cwd=tmp_path,
            env={**os.environ, "OTTLA_BOOTSTRAP": address},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    run(key)
    command = ["sh", "-c", f"cd {tmp_path} && exec {sys.executable} -m {broker} --listen {address}"]
    server = ServerProcess(command, "ottla broker ready", tmp_path / "broker.log")
    server.start()
    try:
        created, altered, listed, verified, ends, against = [run(line) for line in others]
    finally:
        server.stop()
    assert "created" in created and "changed" in altered
    assert "CREATE" in listed and "86400000" in listed
    assert "no broken, no gaps" in verified and "4 signed" in verified
    assert ends == ""
    assert "no broken, no gaps" in against


def test_the_page_names_every_field_of_a_record() -> None:
    rows = [line for line in section().splitlines() if line.startswith("| `")]
    named = {word.strip("` ") for row in rows for word in row.split("|")[1].split(",")}
    assert set(FIELDS) <= named
