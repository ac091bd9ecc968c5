"""Debezium's connector for PostgreSQL 3.6.1 in Kafka Connect 4.3.1's standalone worker, both in Java."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.connect.java.jars import fetch_connect
from ottla.pipeline.spark.java_runtime import bundled_java
from ottla.pipeline.spark.maven import fetch_jars
from support.java.debezium_source import POSTGRES
from support.java.java_tools import jars_of

MAIN: Final = "org.apache.kafka.connect.cli.ConnectStandalone"
SCRIPT_HEAP: Final = ("-Xms256m", "-Xmx2g")
"""That of Kafka's connect-standalone.sh."""


def standalone_command(worker: Path, connector: Path, heap: tuple[str, ...] = SCRIPT_HEAP) -> list[str]:
    """The worker's command, with the files of its properties and the connector's."""
    jars = [*fetch_connect(), *fetch_jars(jars_of(POSTGRES.lock))]
    path = os.pathsep.join(map(str, jars))
    return [
        str(bundled_java().executable),
        *heap,
        "-XX:+UseG1GC",
        "-cp",
        path,
        MAIN,
        str(worker),
        str(connector),
    ]


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    """A properties file; values have no characters that would need an escape."""
    path.write_text("".join(f"{name}={text}\n" for name, text in properties.items()), encoding="utf-8")
    return path
