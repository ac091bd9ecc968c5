"""docs/audit.md: its producer runs as it is written, its commands and settings are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
from click.testing import CliRunner

from ottla.audit.core.rows import Row, State, row_fields
from ottla.audit.settings import COUNT_TABLE, SERVE_TABLE
from ottla.cli.main import ottla
from support.audit.counting import counting
from support.audit.faulty import settled, total
from support.clients.confluent import create_topic
from support.servers.ottla_broker import OttlaBroker

PAGE = Path(__file__).parents[3] / "docs" / "audit.md"


def test_the_producer_of_the_page_reports(broker: OttlaBroker, tmp_path: Path, unique_name: str) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    create_topic(broker.bootstrap, unique_name)
    for written, here in (
        ("127.0.0.1:9092", broker.bootstrap),
        ('tier="app"', f'tier="{unique_name}", bucket_ms=1_000'),
        ('"orders"', f'"{unique_name}"'),
    ):
        assert written in program
        program = program.replace(written, here)
    with counting(broker.bootstrap, tmp_path, unique_name, {"topics.include": unique_name}):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
        code, rows = settled(broker.bootstrap, unique_name)
    assert (code, total(rows, "sent"), total(rows, "counted"), total(rows, "lost")) == (0, 1_000, 1_000, 0)


def test_commands_settings_and_fields_of_the_page_are_there() -> None:
    text = PAGE.read_text()
    for words in re.findall(r"^\$ ottla ([a-z ]+?)(?: --|$)", text, re.MULTILINE):
        answer = CliRunner().invoke(ottla(), [*words.split(), "--help"])
        assert answer.exit_code == 0, words
    for name in re.findall(r"--set '?([a-z.]+)=", text):
        assert COUNT_TABLE.find(name) is not None or SERVE_TABLE.find(name) is not None, name
    fields = row_fields(Row("t", "a", 0, 1_000, State.COMPLETE))
    (table,) = re.findall(r"\| field \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)", text)
    told = re.findall(r"^\| `([a-z_]+)`", table, re.MULTILINE)
    assert set(told) <= set(fields) and {"sent", "counted", "lost", "doubled", "late"} <= set(told)
    report = ottla().get_command(click.Context(ottla()), "audit")
    assert isinstance(report, click.Group)
