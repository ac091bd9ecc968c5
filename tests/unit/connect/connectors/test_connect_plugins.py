"""The catalog of connectors: names, and each of them as a plugin that can be loaded; the example's tests."""

from __future__ import annotations

import importlib
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.config.setting import Setting, Table
from ottla.connect.cdc.plugins import PLUGINS as CHANGES
from ottla.connect.connectors.plugins import PLUGINS
from ottla.connect.plugins import catalog
from ottla.connect.plugins.catalog import Catalog, Kind, Plugin, installed_plugins
from ottla.connect.plugins.required import Required, is_required

EXAMPLE = Path(__file__).parents[4] / "examples" / "connect"


@pytest.mark.parametrize("plugin", (*PLUGINS, *CHANGES), ids=lambda plugin: plugin.names[-1])
def test_each_plugin_is_a_connector_with_its_settings(plugin: Plugin) -> None:
    connector = plugin.load()
    assert isinstance(connector.TABLE, Table)
    assert plugin.version == connector.VERSION
    wanted = (
        ("partitions", "read", "committed")
        if plugin.kind is Kind.SOURCE
        else ("open", "write", "flush", "lose")
    )
    assert all(callable(getattr(connector, name)) for name in (*wanted, "close"))
    for setting in connector.TABLE.settings.values():
        assert isinstance(setting, Setting)
        assert setting.doc
        assert is_required(setting) == isinstance(setting.check, Required)
        if not is_required(setting):
            setting.validate(setting.default)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("org.apache.kafka.connect.file.FileStreamSourceConnector", Kind.SOURCE),
        ("FileStreamSource", Kind.SOURCE),
        ("FileStreamSinkConnector", Kind.SINK),
        ("io.confluent.kafka.connect.datagen.DatagenConnector", Kind.SOURCE),
        ("ottla.connect.DirectorySource", Kind.SOURCE),
        ("ottla.connect.DirectorySink", Kind.SINK),
        ("io.aiven.kafka.connect.http.HttpSinkConnector", Kind.SINK),
        ("com.github.jcustenborder.kafka.connect.redis.RedisSinkConnector", Kind.SINK),
        ("io.confluent.connect.elasticsearch.ElasticsearchSinkConnector", Kind.SINK),
        ("com.mongodb.kafka.connect.MongoSinkConnector", Kind.SINK),
        ("io.confluent.connect.jdbc.JdbcSourceConnector", Kind.SOURCE),
        ("JdbcSinkConnector", Kind.SINK),
        ("ottla.connect.DocumentSource", Kind.SOURCE),
        ("ottla.connect.DocumentSink", Kind.SINK),
        ("io.debezium.connector.postgresql.PostgresConnector", Kind.SOURCE),
        ("io.debezium.connector.mariadb.MariaDbConnector", Kind.SOURCE),
    ],
)
def test_connectors_are_found_by_the_names_that_files_have(name: str, kind: Kind) -> None:
    assert Catalog((*PLUGINS, *CHANGES)).find(name, kind) is not None


def test_a_package_adds_its_plugins_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLE)
    point = importlib.metadata.EntryPoint("clock", "clock_and_pairs", catalog.ENTRY_POINTS)
    monkeypatch.setattr(
        importlib.metadata,
        "entry_points",
        lambda group: [point] if group == catalog.ENTRY_POINTS else [],
    )
    found = installed_plugins().find("example.ClockSource", Kind.SOURCE)
    assert found is not None
    assert found.load() is importlib.import_module("clock_and_pairs").ClockSource


def test_the_example_passes_its_own_tests() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLE)]
    run = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("package", ["redis", "pymongo", "psycopg", "couchbase", "pymysql"])
def test_a_package_that_is_not_installed_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ottla.config.errors import ConfigError
    from ottla.connect.testing import settings_of

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == package else real(name))
    name, texts = {
        "redis": ("ottla.connect.RedisSink", {}),
        "pymongo": ("ottla.connect.MongoSink", {"connection.uri": "mongodb://h", "database": "d"}),
        "psycopg": ("ottla.connect.DocumentSink", {"store.url": "postgresql://h/d"}),
        "couchbase": ("ottla.connect.DocumentSink", {"store.url": "couchbase://h/b"}),
        "pymysql": ("ottla.connect.JdbcSink", {"connection.url": "jdbc:mariadb://h/b"}),
    }[package]
    plugin = Catalog(PLUGINS).find(name, Kind.SINK)
    assert plugin is not None
    with pytest.raises(ConfigError, match="pip install"):
        plugin.load()(settings_of(plugin.load(), texts))
