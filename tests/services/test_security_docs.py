"""The lines of docs/services-security.md, run in its order on free ports."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.clients.confluent import create_topic
from support.servers.cluster import ServerProcess, free_port
from support.servers.ottla_broker import OttlaBroker

PAGE = Path(__file__).parents[2] / "docs" / "services-security.md"
TIMEOUT_S = 60

pytestmark = [pytest.mark.system("openssl"), pytest.mark.system("curl")]


def blocks() -> Iterator[str]:
    """The indented blocks with commands, and the one in Python."""
    text = PAGE.read_text()
    for found in re.finditer(r"(?m)(?:^    .*\n|^\n(?=    ))+|```python\n(?s:.*?)```", text):
        block = found[0]
        if block.startswith("```python"):
            program = block.removeprefix("```python").removesuffix("```").strip()
            yield f"{sys.executable} - <<'PYTHON'\n{program}\nPYTHON"
        elif re.search(r"(?m)^    (openssl|ottla|curl|echo|cat|printf) ", block):
            yield textwrap.dedent(block).strip()


def test_the_lines_of_the_page_do_what_it_says(broker: OttlaBroker, tmp_path: Path) -> None:
    create_topic(broker.bootstrap, "orders")
    ports = {"8081": str(free_port()), "8082": str(free_port())}
    tools = tmp_path / "bin"
    tools.mkdir()
    ottla = tools / "ottla"
    ottla.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla "$@"\n')
    ottla.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    told = ""
    with ExitStack() as stack:
        for block in blocks():
            script = block.replace("127.0.0.1:9092", broker.bootstrap)
            # beside the registries of other tests on the same broker
            script = script.replace(
                "realm=registry", "realm=registry\nkafkastore.topic=_page\nschema.registry.group.id=page"
            )
            for usual, port in ports.items():
                script = script.replace(f":{usual}", f":{port}")
            foreground, *rest = re.split(r"(?m)^(ottla .*) &$", script)
            told += shell(foreground, tmp_path, environment)
            for command, behind in zip(rest[::2], rest[1::2], strict=True):
                log_path = tmp_path / f"{len(told)}.log"
                words = ["/bin/sh", "-c", f"cd '{tmp_path}' && exec {command}"]
                server = ServerProcess(words, " ready at ", log_path, environment=environment)
                stack.callback(server.stop)
                server.start()
                told += shell(behind, tmp_path, environment)
    lines = [line for line in re.split(r"\n|(?<=[}\]])(?=[{\[])", told) if line]
    assert lines[0] == "[]"
    assert '"id":1' in lines[1]
    assert "40301" in lines[2] and "denied WRITE on subject payments-value" in lines[2]
    assert lines[3] == "['orders-value']"
    topics = json.loads(lines[4])
    assert "orders" in topics and all(topic.startswith("orders") for topic in topics)


def shell(script: str, directory: Path, environment: dict[str, str]) -> str:
    """What the lines print; none of them may fail."""
    if not script.strip():
        return ""
    done = subprocess.run(
        ["/bin/bash", "-ec", script],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, (script, done.stdout, done.stderr)
    return done.stdout
