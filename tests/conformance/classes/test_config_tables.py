"""Our tables of settings and features are Apache Kafka's: names, types, defaults, modes, synonyms, levels."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from ottla.config.settings import Setting, UpdateMode
from ottla.core.image.features import SUPPORTED_FEATURES
from ottla.core.settings import client_metrics_settings, group_settings, topic_settings
from ottla.core.settings.broker_settings import BROKER_SETTINGS
from support.java.java_tools import java_command, kafka_classpath

pytestmark = pytest.mark.java

PROGRAM = Path(__file__).parents[2] / "support" / "java" / "ConfigTables.java"
#: ottla's own defaults: a single node with its data in the current directory.
OUR_DEFAULTS = {
    "controller.listener.names": "CONTROLLER",
    "log.dir": "ottla-data",
    "node.id": "1",
    "process.roles": "broker,controller",
}


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, list[str]]]:
    """Kafka's tables: table -> name -> the other words."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    janino = [
        str(path) for pattern in ("janino-*.jar", "commons-compiler-*.jar") for path in jars.glob(pattern)
    ]
    written = tmp_path_factory.mktemp("tables") / "tables"
    command = java_command(
        "org.codehaus.janino.SimpleCompiler",
        str(PROGRAM),
        "ConfigTables",
        str(written),
        class_path=os.pathsep.join((kafka_classpath(), *janino)),
    )
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    tables: dict[str, dict[str, list[str]]] = {}
    for line in written.read_text(encoding="utf-8").splitlines():
        table, name, *words = line.split("\t")
        tables.setdefault(table, {}).setdefault(name, []).extend(words)
    return tables


@pytest.mark.parametrize(
    ("table", "ours"),
    [
        ("broker", BROKER_SETTINGS),
        ("topic", topic_settings.TOPIC_SETTINGS),
        ("group", group_settings.GROUP_SETTINGS),
        ("client-metrics", client_metrics_settings.CLIENT_METRICS_SETTINGS),
    ],
)
def test_settings(
    kafka: dict[str, dict[str, list[str]]], table: str, ours: Mapping[str, Setting[object]]
) -> None:
    theirs = kafka[table]
    assert sorted(ours) == sorted(theirs)
    for name, setting in ours.items():
        kind, default, internal = theirs[name][:3]
        assert setting.type.name == kind, name
        assert setting.internal == (internal == "true"), name
        if table == "broker" and name in OUR_DEFAULTS:
            assert setting.default_text == OUR_DEFAULTS[name]
            assert default != OUR_DEFAULTS[name]
        else:
            assert setting.default_text == (None if default == "<none>" else default), name


def test_which_settings_change_while_a_broker_runs(kafka: dict[str, dict[str, list[str]]]) -> None:
    modes = {
        name: [setting.update.value]
        for name, setting in BROKER_SETTINGS.items()
        if setting.update is not UpdateMode.READ_ONLY
    }
    theirs = kafka["mode"]
    assert modes == {name: mode for name, mode in theirs.items() if mode != ["read-only"]}


def test_synonyms_of_topic_settings(kafka: dict[str, dict[str, list[str]]]) -> None:
    ours = {
        name: [broker for broker, _ in synonyms] for name, synonyms in topic_settings.BROKER_SYNONYMS.items()
    }
    assert ours == kafka["synonym"]


def test_features(kafka: dict[str, dict[str, list[str]]]) -> None:
    ours = {name: [str(level) for level in levels] for name, levels in SUPPORTED_FEATURES.items()}
    assert ours == kafka["feature"]
