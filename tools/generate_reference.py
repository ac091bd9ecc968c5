"""Writes `docs/reference` from the tables of settings: the broker's, topics', groups', the services'.

    python tools/generate_reference.py

A broker's setting has an effect if the code of the broker names it, or a setting of a topic or group that
takes its value. The others are settings of Kafka for things that ottla lacks, or does not need: they are
listed apart. With `--check` nothing is written; the exit code says whether the pages are as they would be.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.audit import settings as audit_settings
from ottla.balance.service import settings as balance_settings
from ottla.broker.config import (
    ADD_SCRAM,
    ALLOW_EVERYONE_IF_NO_ACL_FOUND,
    AUDIT_LOG_ENABLE,
    AUDIT_LOG_KEY_FILE,
    AUDIT_LOG_REPLICATION_FACTOR,
    BROKER_TABLE,
    MOST_SERIES_OF_A_CLIENT,
    SSL_PRINCIPAL_SPIFFE,
    SUPER_USERS,
)
from ottla.cli.servers.broker_options import DEFAULT_LISTEN
from ottla.client.java_names import unsupported_properties
from ottla.config.setting import Setting, Table, UpdateMode
from ottla.config.telemetry_settings import OTLP_SETTINGS
from ottla.connect import settings as connect_settings
from ottla.connect.java.settings import JAVA_SETTINGS
from ottla.core.decisions.config_changes import group_setting_bounds
from ottla.core.settings import broker_settings, client_metrics_settings, group_settings, topic_settings
from ottla.core.settings.broker_settings import (
    BROKER_SETTINGS,
    DYNAMIC_ONLY,
    groups,
    log,
    quorum,
    quotas,
    remote_log,
    replication,
    security,
    server,
    share,
    topics,
    transactions,
)
from ottla.core.settings.link_settings import LINK_TOPIC_SETTINGS
from ottla.core.settings.schema_validation_settings import (
    SCHEMA_VALIDATION_BROKER_SETTINGS,
    SCHEMA_VALIDATION_TOPIC_SETTINGS,
)
from ottla.lag import settings as lag_settings
from ottla.metrics.settings import METRICS_SETTINGS
from ottla.mqtt import settings as mqtt_settings
from ottla.registry import settings as registry_settings
from ottla.rest import settings as rest_settings
from ottla.sql.server import settings as sql_settings

REPOSITORY: Final = Path(__file__).resolve().parent.parent
REFERENCE: Final = REPOSITORY / "docs" / "reference"
SOURCE: Final = REPOSITORY / "src" / "ottla"
#: The code of a broker and its commands; its tables of settings name every setting.
BROKER_SOURCES: Final = ("broker", "core", "cli")
TABLES: Final = SOURCE / "core" / "settings"
CONCERNS: Final = (
    server,
    quorum,
    topics,
    log,
    replication,
    groups,
    transactions,
    share,
    quotas,
    security,
    remote_log,
)
NOTE: Final = (
    "<!-- Written by tools/generate_reference.py (`make reference`) from the tables of settings. -->"
)
HOW: Final = """\
Where a value comes from, the first wins: an option of the command, as `--set NAME=VALUE`; the environment, as
`{variable}` for `{name}` (capitals; `_` for a dot, `__` for a `_`, `___` for a dash); the
file of `--config FILE`, in the format of Java's properties files; the default. A value that is not allowed
stops the start with one line that says where it stands; a name that is unknown is named in a warning."""


class Section(NamedTuple):
    """Settings under one heading. text: stands before them."""

    heading: str
    settings: Sequence[Setting[Any]]
    text: str = ""


class Column(NamedTuple):
    """A column that some pages have beside the common ones."""

    heading: str
    cell: Callable[[Setting[Any]], str]


# -- pages ------------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """The pages' texts, by file name."""
    return {
        "broker.md": broker_page(),
        "topics.md": page(
            "Settings of topics",
            "Given with `--config` of `kafka-topics.sh`, or any other client's request to create or alter a "
            "topic. A topic that does not have a setting takes the broker's, else the default.",
            [
                *with_effect(topic_settings.TOPIC_SETTINGS.values(), "Of Apache Kafka"),
                Section(
                    "Of Confluent",
                    list(SCHEMA_VALIDATION_TOPIC_SETTINGS.values()),
                    "The broker must know the Schema Registry: see [services](../services.md).",
                ),
                Section(
                    "Of mirror topics",
                    list(LINK_TOPIC_SETTINGS.values()),
                    "Written by links and their commands, see [links](../links.md).",
                ),
            ],
            Column("Broker's setting", lambda each: joined(name for name, _ in topic_synonyms(each.name))),
        ),
        "groups.md": page(
            "Settings of groups",
            "Given by a client's request to alter a group's configuration, as with `kafka-configs.sh "
            "--entity-type groups`. A group that does not have a setting takes the broker's, or the default.",
            with_effect(group_settings.GROUP_SETTINGS.values(), ""),
            Column(
                "Broker's setting", lambda each: joined([group_settings.BROKER_SYNONYMS.get(each.name, "")])
            ),
        ),
        "client-metrics.md": page(
            "Settings of client metrics",
            "Subscriptions by which a broker asks clients for their metrics (KIP-714), given with "
            "`kafka-configs.sh --entity-type client-metrics`.",
            [Section("", list(client_metrics_settings.CLIENT_METRICS_SETTINGS.values()))],
        ),
        "registry.md": service_page(
            registry_settings.TABLE,
            registry_settings.TOPIC,
            "Other names that begin with `kafkastore.` go, without that, to the Kafka clients, as librdkafka "
            "or Java's clients call their properties: `kafkastore.security.protocol`, "
            "`kafkastore.sasl.username` or `kafkastore.sasl.jaas.config`. Certificates and keys are PEM.",
        ),
        "sql.md": service_page(
            sql_settings.TABLE,
            sql_settings.SERVICE_ID,
            "Names are those of ksqlDB; those that begin with `ottla.` are ottla's own. Other names that "
            "begin with `ksql.streams.` go, without that, to the Kafka clients, as librdkafka or Java's "
            "clients call them, and so do those of `sasl.`; those of `ottla.sql.spark.conf.` go to Spark. "
            "Certificates and keys are PEM.",
            original="ksqlDB",
        ),
        "connect.md": service_page(
            connect_settings.TABLE,
            connect_settings.GROUP_ID,
            "Names are those of Kafka Connect's workers; those that begin with `ottla.` are ottla's own. "
            "Other names that begin with `producer.`, `consumer.` or `admin.` go, without that, to the Kafka "
            "clients of connectors, `security.protocol`, `sasl.` and `ssl.` to these and to the worker's "
            "own, as librdkafka or Java's clients call them. Those of `key.converter.`, `value.converter.` "
            "and `header.converter.` go to the converters; the worker's topics are made with what stands "
            "behind `config.storage.`, `offset.storage.` and `status.storage.`. Certificates and keys are "
            "PEM. `ottla connect plugins CLASS` tells the settings of a connector.",
            [
                Section(
                    "The Java worker",
                    [each for each in JAVA_SETTINGS if connect_settings.TABLE.find(each.name) is None],
                    "Of the worker that runs plugins in Java, where `plugin.path` is given: see "
                    "[Connect](../connect.md#plugins-in-java). `ottla.java.worker.NAME` sets one of the "
                    "properties of Kafka's own.",
                )
            ],
            original="Kafka Connect and Confluent",
        ),
        "audit-count.md": service_page(
            audit_settings.COUNT_TABLE,
            audit_settings.LATENESS_MS,
            "Other names that begin with `client.` go, without that, to the Kafka client, as librdkafka or "
            "Java's clients call their properties. Certificates and keys are PEM.",
        ),
        "audit-serve.md": service_page(
            audit_settings.SERVE_TABLE,
            audit_settings.ALERT_URL,
            "Other names that begin with `client.` go, without that, to the Kafka client, as librdkafka or "
            "Java's clients call their properties. Certificates and keys are PEM.",
        ),
        "balance.md": service_page(
            balance_settings.TABLE,
            balance_settings.SAMPLING_MS,
            "Other names that begin with `client.` go, without that, to the Kafka client, as librdkafka or "
            "Java's clients call their properties. Certificates and keys are PEM.",
        ),
        "lag.md": service_page(
            lag_settings.TABLE,
            lag_settings.OFFSET_REFRESH_MS,
            "Other names that begin with `client.` go, without that, to the Kafka client, as librdkafka or "
            "Java's clients call their properties. Certificates and keys are PEM.",
        ),
        "mqtt.md": service_page(
            mqtt_settings.TABLE,
            mqtt_settings.PACKET_BYTES,
            "Other names that begin with `client.` or `producer.` go, without that, to the Kafka client, as "
            "librdkafka or Java's clients call their properties. Certificates and keys are PEM. The names in "
            "`ottla.access.rules` are MQTT's topics: `User:dev write sensors/dev/*`.",
        ),
        "rest.md": service_page(
            rest_settings.TABLE,
            rest_settings.CONSUMER_INSTANCES,
            "Other names that begin with `client.`, `producer.`, `consumer.` or `admin.` go, without that, "
            "to the Kafka clients, as librdkafka or Java's clients call their properties; those of `client.` "
            "to all of them. Certificates and keys are PEM.",
        ),
    }


def broker_page() -> str:
    sections = [
        Section(heading_of(module.__doc__), [each for each in settings_in(module) if has_effect(each.name)])
        for module in CONCERNS
    ]
    sections.append(
        Section("Schema validation", list(SCHEMA_VALIDATION_BROKER_SETTINGS.values()), "Confluent's.")
    )
    sections.append(
        Section("Authorizer", [SUPER_USERS, ALLOW_EVERYONE_IF_NO_ACL_FOUND], "Of Kafka's StandardAuthorizer.")
    )
    sections.append(Section("Formatting", [ADD_SCRAM], "ottla's own: what an empty directory begins with."))
    sections.append(Section("Names of certificates", [SSL_PRINCIPAL_SPIFFE], "ottla's own."))
    audit = [AUDIT_LOG_ENABLE, AUDIT_LOG_KEY_FILE, AUDIT_LOG_REPLICATION_FACTOR]
    text = "ottla's own: where Prometheus and health checks ask, and who may read the answers."
    sections.append(Section("Metrics endpoint", METRICS_SETTINGS, text))
    telemetry = [MOST_SERIES_OF_A_CLIENT, *OTLP_SETTINGS]
    sections.append(Section("Client telemetry", telemetry, "ottla's own: see [telemetry](../telemetry.md)."))
    sections.append(Section("Audit log", audit, "ottla's own: see [security](../security.md)."))
    without = [each for each in BROKER_SETTINGS.values() if not has_effect(each.name)]
    sections.append(
        Section(
            "Without effect",
            without,
            "Settings of Apache Kafka that are read, checked and shown by DescribeConfigs, so that a file "
            "written for Kafka works, and that change nothing: ottla has no remote storage or plugins yet, "
            "and does not need the others.",
        )
    )
    how = HOW.format(
        variable=f"{BROKER_TABLE.variables}NUM_PARTITIONS", name=broker_settings.NUM_PARTITIONS.name
    )
    return page(
        "Settings of ottla broker",
        f"Names, types, defaults and limits are those of Apache Kafka 4.4.\n\n{how}\n\n"
        f"`ottla broker` listens on {DEFAULT_LISTEN} where `listeners` is not given. A name with "
        "`listener.name.NAME.` before it gives a setting of connections, TLS or SASL for one listener.",
        sections,
        Column("Changes", changes),
    )


def service_page(
    table: Table,
    example: Setting[Any],
    text: str,
    more: Sequence[Section] = (),
    *,
    original: str = "Confluent",
) -> str:
    variable = table.variables + example.name.replace(".", "_").upper()
    how = HOW.format(variable=variable, name=example.name)
    known = page(
        f"Settings of {table.title}",
        f"{how}\n\n{text}",
        [Section("", list(table.settings.values())), *more],
    )
    return f"{known}\n{unsupported_settings(table, original)}"


def unsupported_settings(table: Table, original: str) -> str:
    """The original's settings that the service lacks, by reason; those of Kafka clients are left out."""
    of_clients = unsupported_properties(table.prefixes)
    parts: list[str] = []
    for refuses, heading, text in (
        (
            True,
            "that stop the start",
            "They ask for something that would be missing.",
        ),
        (False, "without effect", "A file with them is taken; a warning names them."),
    ):
        reasons: dict[str, list[str]] = {}
        for name, each in table.unsupported.items():
            if each.refuses is refuses and name not in of_clients and table.find(name) is None:
                reasons.setdefault(each.reason, []).append(f"`{name}{'*' if name.endswith('.') else ''}`")
        lines = [f"- {', '.join(sorted(names))}: {prose(reason)}." for reason, names in reasons.items()]
        parts.append(f"## Settings of {original} {heading}\n\n{text}\n\n" + "\n".join(lines))
    return "\n\n".join(parts) + "\n"


def page(title: str, text: str, sections: Iterable[Section], column: Column | None = None) -> str:
    """A page in Markdown; settings that are internal stand on none."""
    parts = [NOTE, f"# {title}", text]
    for section in sections:
        shown = [each for each in section.settings if not each.internal]
        if shown:
            parts += [f"## {section.heading}"] if section.heading else []
            parts += [section.text] if section.text else []
            parts.append(table_of(shown, column))
    return "\n\n".join(parts) + "\n"


def table_of(settings: Iterable[Setting[Any]], column: Column | None) -> str:
    """Settings as a table, by name."""
    headings = ["Setting", "Type", "Default", "Allowed", "Importance", *([column.heading] if column else [])]
    rows = [headings, ["---"] * len(headings)]
    for each in sorted(settings, key=lambda setting: setting.name):
        name = f"`{each.name}`<br>{prose(each.doc)}"
        cells = [name, each.type.name.lower(), default_of(each), prose(each.allowed)]
        rows.append([*cells, each.importance.value, *([column.cell(each)] if column else [])])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def prose(text: str) -> str:
    """A text of ours for a cell: Markdown would take these characters for its own."""
    return text.replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*")


def default_of(setting: Setting[Any]) -> str:
    match setting.default_text:
        case None:
            return "none"
        case "":
            return "empty"
        case text:
            return f"`{text}`"


def changes(setting: Setting[Any]) -> str:
    if setting.name in DYNAMIC_ONLY:
        return "while it runs only"
    match setting.update:
        case UpdateMode.READ_ONLY:
            return "at a start"
        case UpdateMode.PER_BROKER:
            return "for one broker"
        case UpdateMode.CLUSTER_WIDE:
            return "for one broker or all"


def heading_of(docstring: str | None) -> str:
    """`Logs: segments, …` of `Settings of logs: segments, ….`"""
    assert docstring is not None
    text = docstring.splitlines()[0].removeprefix("Settings of ").removeprefix("the ").rstrip(".")
    return text[0].upper() + text[1:]


def joined(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names if name)


# -- settings that have an effect -------------------------------------------------------------------


def with_effect(settings: Iterable[Setting[Any]], heading: str) -> list[Section]:
    """Two sections: settings with an effect, and those without."""
    found: dict[bool, list[Setting[Any]]] = {True: [], False: []}
    for each in settings:
        found[each.name in effective_topic_and_group_settings()].append(each)
    without = "Taken and shown, so that tools for Kafka work; they change nothing."
    return [Section(heading, found[True]), Section("Without effect", found[False], without)]


def has_effect(name: str) -> bool:
    """Whether the code of the broker looks at the setting `name`."""
    return name in effective_broker_settings()


@cache
def effective_broker_settings() -> frozenset[str]:
    effective = {each.name for each in settings_in(broker_settings) if constant_of(each) in named_in_broker()}
    for name in effective_topic_and_group_settings():
        effective.update(synonym for synonym, _ in topic_synonyms(name))
        effective.update(filter(None, (group_settings.BROKER_SYNONYMS.get(name),)))
    for name in group_settings.GROUP_SETTINGS:
        effective.update(bound.name for bound in group_setting_bounds(name) if bound is not None)
    return frozenset(effective)


@cache
def effective_topic_and_group_settings() -> frozenset[str]:
    settings = [*settings_in(topic_settings), *settings_in(group_settings)]
    named = named_in_broker()
    return frozenset(each.name for each in settings if constant_of(each) in named or each.name in named)


def topic_synonyms(name: str) -> tuple[tuple[str, int], ...]:
    return topic_settings.BROKER_SYNONYMS.get(name, ())


def settings_in(module: object) -> list[Setting[Any]]:
    return [value for value in vars(module).values() if isinstance(value, Setting)]


def constant_of(setting: Setting[Any]) -> str:
    """`NUM_PARTITIONS` of `num.partitions`, as a test of the tables holds."""
    return setting.name.upper().replace(".", "_")


@cache
def named_in_broker() -> frozenset[str]:
    """Every name, attribute and text in the code of the broker."""
    found: set[str] = set()
    for path in (path for folder in BROKER_SOURCES for path in (SOURCE / folder).rglob("*.py")):
        if path.is_relative_to(TABLES):
            continue
        for node in ast.walk(ast.parse(path.read_bytes())):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Constant(value=str(name)):
                    found.add(name)
    return frozenset(found)


# -- the command ------------------------------------------------------------------------------------


def differing(written: Mapping[str, str]) -> list[str]:
    """The files of the reference that are not as they would be written, or that no table stands for."""
    on_disk = {path.name: path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md")}
    return sorted(name for name in written.keys() | on_disk.keys() if written.get(name) != on_disk.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page would change")
    options = parser.parse_args()
    written = pages()
    different = differing(written)
    if options.check:
        for name in different:
            print(f"docs/reference/{name} is not as the tables say: make reference", file=sys.stderr)
        return 1 if different else 0
    REFERENCE.mkdir(exist_ok=True)
    for name in different:
        if name in written:
            (REFERENCE / name).write_text(written[name], encoding="utf-8")
        else:
            (REFERENCE / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
