"""Our tables of settings and features are Apache Kafka's, and drawn texts become the same values."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from ottla.client.access import ClusterAccess
from ottla.client.errors import ClientOptionError
from ottla.client.java_names import JAVA_ALONE, WITHOUT_PROTECTION
from ottla.config.setting import ConfigType, InvalidValue, Setting, UpdateMode
from ottla.core.image.features import SUPPORTED_FEATURES
from ottla.core.settings import client_metrics_settings, group_settings, topic_settings
from ottla.core.settings.broker_settings import BROKER_SETTINGS, DYNAMIC_ONLY
from support.clients.named_states import seed_of_this_run
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


#: Kafka looks for classes; Kafka or ottla checks the others elsewhere than in the table.
NOT_COMPARED = frozenset(
    {
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "max.connections.per.ip.overrides",
        *(name for name, setting in BROKER_SETTINGS.items() if setting.type is ConfigType.CLASS),
        *DYNAMIC_ONLY,
    }
)
DRAWN_VALUES = 6_000
TABLES: Mapping[str, Mapping[str, Setting[object]]] = {
    "broker": BROKER_SETTINGS,
    "topic": topic_settings.TOPIC_SETTINGS,
    "group": group_settings.GROUP_SETTINGS,
}


class Drawn(NamedTuple):
    """A text for a setting of a table."""

    table: str
    name: str
    text: str


class Kafka(NamedTuple):
    """Kafka's tables (table -> name -> the other words), and what it says of the drawn values."""

    tables: Mapping[str, Mapping[str, Sequence[str]]]
    verdicts: Sequence[tuple[Drawn, str, str]]


def drawn_values(dice: random.Random) -> list[Drawn]:
    settings = [
        (table, name) for table, named in TABLES.items() for name in named if name not in NOT_COMPARED
    ]
    return [
        Drawn(table, name, drawn_text(dice, TABLES[table][name]))
        for table, name in (dice.choice(settings) for _ in range(DRAWN_VALUES))
    ]


def drawn_text(dice: random.Random, setting: Setting[object]) -> str:
    match setting.type:
        case ConfigType.BOOLEAN:
            text = dice.choice(["true", "false", "yes", "1", "", "tru\u0435"])
        case ConfigType.INT | ConfigType.LONG | ConfigType.SHORT:
            near = dice.choice([0, 1, -1, -2, 10, 1_000, 2**15, 2**31, 2**63, -(2**15), -(2**31), -(2**63)])
            number = near + dice.randint(-2, 2)
            text = dice.choice(
                [f"{number}", f"{number}", f"+{number}", f"{number:,}", f"{number:_}", "٣", "0x1", ""]
            )
        case ConfigType.DOUBLE:
            number = round(dice.choice([dice.random(), dice.uniform(-5, 5), 10.0 ** dice.randint(-8, 12)]), 9)
            text = dice.choice(
                [repr(number), repr(number), f"{number:e}", f"{number}d", "Infinity", "inf", "1_0", "1."]
            )
        case _:
            words = [
                *setting.allowed.removeprefix("any of ").removeprefix("one of ").split(", "),
                "x",
                "0:1",
                "",
            ]
            joint = dice.choice([",", " , ", ",,", "\t,\n"])
            text = joint.join(dice.choices(words, k=dice.choice([0, 1, 1, 1, 2, 3])))
    text = "".join(dice.choice([each, each.swapcase()]) for each in text) if dice.random() < 0.2 else text
    spaces = [" ", "\t", "\x00", "\x1f", "\u00a0", "\u2003", "\x7f", "\n"]
    return dice.choice(["", "", *spaces]) + text + dice.choice(["", "", *spaces])


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Kafka:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    janino = [
        str(path) for pattern in ("janino-*.jar", "commons-compiler-*.jar") for path in jars.glob(pattern)
    ]
    directory = tmp_path_factory.mktemp("tables")
    written, asked, answered = (directory / name for name in ("tables", "asked", "answered"))
    drawn = drawn_values(random.Random(seed_of_this_run()))
    lines = (f"{each.table}\t{each.name}\t{each.text.encode('utf-16-be').hex()}\n" for each in drawn)
    asked.write_text("".join(lines), encoding="ascii")
    command = java_command(
        "org.codehaus.janino.SimpleCompiler",
        str(PROGRAM),
        "ConfigTables",
        str(written),
        str(asked),
        str(answered),
        class_path=os.pathsep.join((kafka_classpath(), *janino)),
    )
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    tables: dict[str, dict[str, list[str]]] = {}
    for line in written.read_text(encoding="utf-8").splitlines():
        table, name, *words = line.split("\t")
        tables.setdefault(table, {}).setdefault(name, []).extend(words)
    verdicts = []
    for each, line in zip(drawn, answered.read_text(encoding="ascii").splitlines(), strict=True):
        verdict, told = line.split("\t")
        verdicts.append((each, verdict, bytes.fromhex(told).decode("utf-16-be")))
    return Kafka(tables, verdicts)


@pytest.fixture(scope="module")
def kafka(answers: Kafka) -> Mapping[str, Mapping[str, Sequence[str]]]:
    return answers.tables


def test_a_drawn_text_is_the_same_value_or_refused_as_in_kafka(answers: Kafka) -> None:
    differences = []
    taken = 0
    for drawn, verdict, told in answers.verdicts:
        setting = TABLES[drawn.table][drawn.name]
        try:
            ours, shown = "taken", setting.format(setting.parse(drawn.text))
        except InvalidValue as refused:
            ours, shown = "refused", str(refused)
        taken += ours == "taken"
        if ours != verdict or (ours == "taken" and shown != told):
            differences.append((drawn, (ours, shown), (verdict, told)))
    assert not differences, f"{len(differences)} of {len(answers.verdicts)}, as {differences[:10]}"
    assert taken > len(answers.verdicts) / 5
    assert taken < len(answers.verdicts)


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
    kafka: Mapping[str, Mapping[str, Sequence[str]]], table: str, ours: Mapping[str, Setting[object]]
) -> None:
    theirs = kafka[table]
    assert sorted(ours) == sorted(theirs)
    for name, setting in ours.items():
        kind, default, internal, importance = theirs[name][:4]
        assert setting.type.name == kind, name
        assert setting.importance.value == importance, name
        assert setting.internal == (internal == "true"), name
        if table == "broker" and name in OUR_DEFAULTS:
            assert setting.default_text == OUR_DEFAULTS[name]
            assert default != OUR_DEFAULTS[name]
        else:
            assert setting.default_text == (None if default == "<none>" else default), name


def test_which_settings_change_while_a_broker_runs(kafka: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    modes = {
        name: [setting.update.value]
        for name, setting in BROKER_SETTINGS.items()
        if setting.update is not UpdateMode.READ_ONLY
    }
    theirs = kafka["mode"]
    assert modes == {name: mode for name, mode in theirs.items() if mode != ["read-only"]}


def test_synonyms_of_topic_settings(kafka: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    ours = {
        name: [broker for broker, _ in synonyms] for name, synonyms in topic_settings.BROKER_SYNONYMS.items()
    }
    assert ours == kafka["synonym"]


def test_features(kafka: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
    ours = {name: [str(level) for level in levels] for name, levels in SUPPORTED_FEATURES.items()}
    assert ours == kafka["feature"]


def test_every_property_of_javas_clients_is_honoured_or_told(
    kafka: Mapping[str, Mapping[str, Sequence[str]]],
) -> None:
    """confluent-kafka takes what is left of each in `ClusterAccess.librdkafka`, or a table names it."""
    unknown = []
    for name, words in kafka["client"].items():
        if name in JAVA_ALONE or name in WITHOUT_PROTECTION:
            continue
        default = "x" if words[1] in ("<none>", "<required>", "") else words[1]
        try:
            Consumer({"group.id": "g", **ClusterAccess("127.0.0.1:1", {name: default}).librdkafka()}).close()
        except ClientOptionError:
            continue  # told at the start
        except KafkaException as refused:
            if refused.args[0].code() == KafkaError._INVALID_ARG and "No such" in refused.args[0].str():
                unknown.append(name)
    assert not unknown
