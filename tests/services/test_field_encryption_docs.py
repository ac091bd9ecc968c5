"""The lines of docs/field-encryption.md, run in its order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.servers.ottla_broker import OttlaBroker
from support.servers.services import ServiceProcess

PAGE = Path(__file__).parents[2] / "docs" / "field-encryption.md"
TIMEOUT_S = 60

pytestmark = [pytest.mark.system("curl"), pytest.mark.slow]


def blocks() -> Iterator[str]:
    """The programs in Python and the indented commands."""
    for found in re.finditer(r"(?m)(?:^    .*\n)+|```python\n(?s:.*?)```", PAGE.read_text()):
        block = found[0]
        if block.startswith("```python"):
            program = block.removeprefix("```python").removesuffix("```").strip()
            yield f"{sys.executable} - <<'PYTHON'\n{program}\nPYTHON"
        else:
            yield textwrap.dedent(block).strip()


def test_the_lines_of_the_page_do_what_it_says(broker: OttlaBroker, tmp_path: Path) -> None:
    ottla = tmp_path / "ottla"
    ottla.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla "$@"\n')
    ottla.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    own = {
        "kafkastore.topic": "_encryption-page",
        "schema.registry.group.id": "encryption-page",
        "dek.registry.topic": "_encryption-page-keys",
        "ottla.local.kms.secret": "a",
    }
    told = []
    with ServiceProcess.start("registry", broker.bootstrap, tmp_path / "log", own) as registry:
        for block in blocks():
            script = block.replace("127.0.0.1:9092", broker.bootstrap)
            script = script.replace("http://localhost:8081", registry.url)
            done = subprocess.run(
                ["/bin/sh", "-ec", script],
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",  # ciphertext
                timeout=TIMEOUT_S,
                check=False,
            )
            assert done.returncode == 0, (script, done.stdout, done.stderr)
            told.append(done.stdout)
    registered, read, kept, in_python, shared = told
    assert '"id":1' in registered
    assert json.loads(read.splitlines()[-1]) == {"id": 1, "iban": "DE89 3704 0044"}
    assert "DE89" not in kept and '"name":"customers-kek"' in kept and '"encryptedKeyMaterial"' in kept
    assert "{'id': 1, 'iban': 'DE89 3704 0044'}" in in_python
    assert '"name":"shared-kek"' in shared and '"keyMaterial"' in shared
