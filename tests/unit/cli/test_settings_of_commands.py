"""`--config` and `--set` are the same for every command, and give its table's settings by layers."""

from __future__ import annotations

import importlib
from pathlib import Path

import click
import pytest

from ottla.broker.config import BROKER_TABLE
from ottla.cli.frame.options import pairs_of
from ottla.cli.frame.running import run_command
from ottla.cli.main import main
from ottla.cli.servers.given_settings import given_from
from ottla.cli.servers.options import settings_options
from ottla.config.errors import UsageError
from ottla.config.setting import Table
from ottla.config.sources import Given, Layer, texts
from ottla.connect import settings as connect_settings
from ottla.registry import settings as registry_settings
from ottla.rest import settings as rest_settings

TABLES = [BROKER_TABLE, registry_settings.TABLE, rest_settings.TABLE, connect_settings.TABLE]


def parsed(table: Table, *words: str) -> dict[str, Given]:
    """The settings of a command with the options of the table."""
    found: list[dict[str, Given]] = []

    @click.command("test")
    @settings_options(table)
    def run(config: Path | None, set_words: tuple[str, ...]) -> None:
        found.append(given_from(config, set_words, table))

    assert run_command(run, words) == 0
    return found[0]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_options_win_over_variables_over_the_file(
    table: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.properties"
    file.write_text("a.b=file\na.c=file\na.d=file\n")
    monkeypatch.setenv(table.variables + "A_B", "variable")
    monkeypatch.setenv(table.variables + "A_C", "variable")

    given = parsed(table, "--config", str(file), "--set", "a.b=word")

    assert texts(given) == {"a.b": "word", "a.c": "variable", "a.d": "file"}
    assert [given[name].origin.layer for name in ("a.b", "a.c", "a.d")] == [
        Layer.COMMAND,
        Layer.ENVIRONMENT,
        Layer.FILE,
    ]


def test_the_variable_of_the_commands_is_none_of_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_CONNECT_URL", "http://127.0.0.1:8083")
    monkeypatch.setenv("OTTLA_CONNECT_GROUP_ID", "team")
    assert texts(parsed(connect_settings.TABLE)) == {"group.id": "team"}


def test_no_variable_belongs_to_two_programs() -> None:
    prefixes = [table.variables for table in TABLES]
    assert all(a is b or not a.startswith(b) for a in prefixes for b in prefixes)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["broker", "--set", "num.partitions"], "--set num.partitions: write it as key=value"),
        (["broker", "--brokers", "2", "--set", "x"], "--set x: write it as key=value"),
        (["broker", "--listen", "here"], "--listen listeners=PLAINTEXT://here: 'PLAINTEXT://here' is not"),
        (["broker", "--data", "a,b"], "--data log.dirs=a,b: one data directory is served"),
        (["broker", "--config", "/nowhere"], "/nowhere: can't read it: No such file"),
        (["quorum", "add", "--config", "/nowhere"], "/nowhere: can't read it: No such file"),
        (["registry", "--set", "kafkastore.timeout.ms=0"], "--set kafkastore.timeout.ms=0: Value must be"),
        (
            ["registry", "--bootstrap", ""],
            "--bootstrap kafkastore.bootstrap.servers=: String must be non-empty",
        ),
        (["rest", "--set", "x"], "--set x: write it as key=value"),
        (["rest", "--config", "/nowhere"], "/nowhere: can't read it: No such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_value_that_can_t_be_is_told_with_its_place(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) in (1, 2)
    (line,) = capsys.readouterr().err.splitlines()
    path = "quorum add" if words[0] == "quorum" else words[0]
    assert line.startswith(f"ottla {path}: {told}")


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.title)
def test_a_variable_that_can_t_be_is_told_by_its_name(
    table: Table, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(f"{table.variables}LISTENERS", "")
    assert main([table.title.removeprefix("ottla ")]) == 1
    path = "ottla connect worker" if table is connect_settings.TABLE else table.title
    told = f"{path}: {table.variables}LISTENERS: listeners=: The list must not be empty\n"
    assert capsys.readouterr().err == told


def test_pairs_that_are_no_settings() -> None:
    assert pairs_of("--spark", ("spark.a = 1", "spark.b=")) == {"spark.a": "1", "spark.b": ""}
    with pytest.raises(UsageError, match="--spark x: write it as key=value"):
        pairs_of("--spark", ("x",))


@pytest.mark.parametrize(
    "name",
    [
        *("servers.broker_command", "servers.up", "servers.registry", "servers.rest"),
        *("servers.streams", "cluster.quorum"),
    ],
)
def test_commands_declare_no_such_option_by_themselves(name: str) -> None:
    source = Path(importlib.import_module(f"ottla.cli.{name}").__file__ or "").read_text(encoding="utf-8")
    assert '"--set"' not in source
    assert '"--config"' not in source or name == "servers.up"
