"""The walk of docs/cdc.md, run in its order on free ports and on a real PostgreSQL."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from support.servers.cluster import ServerProcess, free_port
from support.servers.elasticsearch import elasticsearch
from support.servers.postgresql import postgresql, postgresql_programs

PAGE = Path(__file__).parents[2] / "docs" / "cdc.md"
TIMEOUT_S = 180
LONG = ("A search index", "A table in the lake")
"""Sections whose servers take long to start."""

pytestmark = [pytest.mark.system("psql", "postgresql"), pytest.mark.system("curl")]


def sections() -> Iterator[tuple[str, Sequence[str]]]:
    """The page's sections that have commands: the indented blocks of each."""
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        found = re.finditer(r"(?m)(?:^    .*\n|^\n(?=\n?    ))+", text)
        blocks = [textwrap.dedent(each[0]).strip() for each in found]
        if blocks:
            yield title, blocks


class Walk:
    """A reader's shell, in a directory of its own."""

    def __init__(self, directory: Path, database_url: str, stack: ExitStack) -> None:
        self._directory = directory
        self._stack = stack
        database = urlsplit(database_url)
        broker, worker = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        # The page's addresses are those that one has on a machine of one's own.
        self.addresses = {
            "--data ./data": f"--data ./data --listen {broker}",
            "ottla connect --set": f"ottla connect --bootstrap {broker} --listen {worker} --set",
            "127.0.0.1:9092": broker,
            "PGPORT=5432 PGUSER=postgres": f"PGPORT={database.port} PGUSER={database.username}",
            "127.0.0.1:5432/copy?user=postgres": f"127.0.0.1:{database.port}/copy?user={database.username}",
            '"5432"': f'"{database.port}"',
        }
        self._exports = ""
        self._servers = 0
        tools = directory / "bin"
        tools.mkdir()
        for name, words in {"ottla": "-m ottla ", "python3": ""}.items():
            program = tools / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}"$@"\n')
            program.chmod(0o755)
        self._environment: Mapping[str, str] = {
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "OTTLA_BOOTSTRAP": broker,
            "OTTLA_CONNECT_URL": f"http://{worker}",
        }

    def run(self, block: str) -> str:
        """The output of a block; what it starts in the background runs to the end of the walk."""
        print(block, flush=True)
        for usual, free in self.addresses.items():
            block = block.replace(usual, free)
        if block.startswith("export "):
            self._exports += f"{block}\n"
            return ""
        foreground, *rest = re.split(r"(?m)^(ottla .*) &$", block)
        told = self._shell(foreground)
        for command, behind in zip(rest[::2], rest[1::2], strict=True):
            self._servers += 1
            words = ["/bin/sh", "-c", f"cd '{self._directory}' && exec {command}"]
            log = self._directory / f"server-{self._servers}.log"
            server = ServerProcess(words, " ready", log, environment=dict(self._environment))
            self._stack.callback(server.stop)
            server.start()
            told += self._shell(behind)
        return told

    def _shell(self, script: str) -> str:
        """What the lines print; none of them may fail."""
        if not script.strip():
            return ""
        done = subprocess.run(
            ["/bin/bash", "-ec", self._exports + script],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, (script, done.stdout, done.stderr)
        return done.stdout


def walk(tmp_path: Path, *, long: bool) -> dict[str, str]:
    """What each section's commands print."""
    programs = postgresql_programs()
    assert programs is not None
    with ExitStack() as stack:
        url = stack.enter_context(postgresql(programs, "wal_level=logical"))
        shell = Walk(tmp_path, url, stack)
        if long:
            search = urlsplit(stack.enter_context(elasticsearch("7.17.29")))
            shell.addresses["127.0.0.1:9200"] = search.netloc
        return {
            title: "".join(map(shell.run, blocks))
            for title, blocks in sections()
            if long or title not in LONG
        }


def check_core(told: Mapping[str, str]) -> None:
    """What the sections say that need nothing but PostgreSQL."""
    change = told["Every change is a record"]
    assert '"before": {' in change and '"amount": "BOI="' in change  # 12.50
    assert '"after": {' in change and '"amount": "BRQ="' in change  # 13.00
    rows = told["A live copy"].splitlines()
    customers = ["1|Ada|London", "2|Blaise|Paris", "4|Dorothy|Oxford", "20|Carl|Göttingen"]
    assert rows[-7:-3] == customers
    assert [row.rsplit("|", 1)[0] for row in rows[-3:]] == [
        "1|1|13.00|a brass wheel",
        "3|4|250.00|a microscope",
        "4|1|7.25|",
    ]
    view = told["The view that nobody had thought of"]
    assert "\n1 19.75 20.25 1\n2 3.99 0.00 1\n4 250 250 0\n" in view


def test_the_walk_to_a_live_copy_and_a_view(tmp_path: Path) -> None:
    told = walk(tmp_path, long=False)
    assert "connector shop: created" in told["Every change is a record"]
    check_core(told)


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_whole_walk_with_a_search_index_and_a_lake(tmp_path: Path) -> None:
    told = walk(tmp_path, long=True)
    check_core(told)
    assert '"total":{"value":1' in told["A search index"]
    lake = told["A table in the lake"].splitlines()
    assert lake[-3:] == ["1 13.00 a brass wheel", "3 250.00 a microscope", "4 7.25 None"]
