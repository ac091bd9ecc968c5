"""docs/sql-server.md does what it shows: its script through `ottla sql`, its lines through psql."""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from support.docs.blocks import fenced, indented, introduction, section
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker
from support.sql.sql_server import TIMEOUT_S, Push, SqlServer

pytestmark = [pytest.mark.long, pytest.mark.timeout(900), pytest.mark.system("psql", "postgresql")]


def test_the_page_does_what_it_shows(broker: OttlaBroker, tmp_path: Path) -> None:
    port = free_port()
    settings = {"ottla.sql.postgres.listen": f"127.0.0.1:{port}"}
    (script,) = fenced(introduction("sql-server.md"), "sql")
    *made, pull, push = [f"{each.strip()};" for each in script.split(";") if each.strip()]
    file = tmp_path / "page.sql"
    file.write_text("\n".join(made))
    with SqlServer.start(
        broker.bootstrap, tmp_path / "sql", f"id{uuid.uuid4().hex[:8]}", warm=True, settings=settings
    ) as server:
        command = [sys.executable, "-m", "ottla", "sql", "--server", server.url, "-f", str(file)]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        server.until(pull, lambda rows: rows == [["home", 1]])
        pushed = Push(server, push)
        server.run("INSERT INTO pageviews VALUES (2, 'away', 130);")
        pushed.until(lambda rows: rows == [["away", 130]])
        server.until("SELECT * FROM counts;", lambda rows: len(rows) == 2)

        (shown,) = indented(section("sql-server.md", "From PostgreSQL's tools"))
        opened, *asked = shown.splitlines()
        psql = shutil.which("psql")
        assert psql is not None
        assert opened == "psql -h 127.0.0.1 -p 5432"
        answers = []
        for line in asked:
            text = line.removeprefix("=> ").replace("EMIT CHANGES;", "EMIT CHANGES LIMIT 1;")
            words = [psql, "-h", "127.0.0.1", "-p", str(port), "-U", "me", "-XAt"]
            if "EMIT" in text:
                words += ["-c", "SET 'auto.offset.reset' = 'earliest';"]
            told = subprocess.run(
                [*words, "-c", text], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
            assert told.returncode == 0, (text, told.stdout + told.stderr)
            answers.append(told.stdout.splitlines())
        described, looked_up, grouped, followed = answers
        assert any(each.startswith("PAGE|") for each in described), described
        assert looked_up == ["home|1"]
        assert grouped == ["1|2"]
        assert followed[-1] in ("home|120", "away|130")
