"""The jars with which the installed PySpark can use Kafka: a small table, with an override.

PySpark comes without a Kafka connector. Four jars are enough (the others are in PySpark already): the
connector, its token provider, the Java Kafka client and its object pool. The table holds the sets that were
tried and work, with the hash of each file; repaired_jars.py mends the one that has a fault.

A fifth jar is not part of the connector: a session on one machine writes its files through it.

OTTLA_SPARK_JARS overrides the table for any other Spark 4.x: a comma-separated list of paths to jars on this
machine and of `group:artifact:version:sha256` coordinates to fetch.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from importlib import metadata
from pathlib import Path
from types import MappingProxyType

from ottla.config.errors import UserError
from ottla.pipeline.spark.maven import Jar, JarProgress, MavenError, fetch_jars
from ottla.pipeline.spark.repaired_jars import repaired

JARS_ENVIRONMENT = "OTTLA_SPARK_JARS"
_SPARK = "org.apache.spark"

log = logging.getLogger("ottla.pipeline")

KAFKA_CONNECTOR_JARS: Mapping[str, tuple[Jar, ...]] = MappingProxyType(
    {
        "4.0.0": (
            Jar(
                _SPARK,
                "spark-sql-kafka-0-10_2.13",
                "4.0.0",
                "33a3b8b04df4a2e43c9d5bf8ca5972936a1ac662f2714e014d00ef6f27468bf3",
            ),
            Jar(
                _SPARK,
                "spark-token-provider-kafka-0-10_2.13",
                "4.0.0",
                "f2be3b76f9e6cbe63379d4e4e0dc14f59dbf056ae2ad16ff15ac108004c86767",
            ),
            Jar(
                "org.apache.kafka",
                "kafka-clients",
                "3.9.0",
                "15c1e137f2c2c94398e27abc4060a03b6bde10bf9fac15e8f70c02320b202f18",
            ),
            Jar(
                "org.apache.commons",
                "commons-pool2",
                "2.12.0",
                "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
            ),
        ),
        "4.1.1": (
            Jar(
                _SPARK,
                "spark-sql-kafka-0-10_2.13",
                "4.1.1",
                "9c1ce986f548e6b1dcb0e2dfe2f253a0bc58f2232a32a0c9c6c674dd25a8570c",
            ),
            Jar(
                _SPARK,
                "spark-token-provider-kafka-0-10_2.13",
                "4.1.1",
                "e510adc37b03d01d0a190d0dab472b5538e05eaa77454f7e9477156d7a6820ae",
            ),
            Jar(
                "org.apache.kafka",
                "kafka-clients",
                "3.9.1",
                "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
            ),
            Jar(
                "org.apache.commons",
                "commons-pool2",
                "2.12.1",
                "5273c8bc8c0dca2211175c0d27efbd7228efae99689aac001a8e1ef8e872e9ef",
            ),
        ),
        "4.2.0": (
            Jar(
                _SPARK,
                "spark-sql-kafka-0-10_2.13",
                "4.2.0",
                "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
            ),
            Jar(
                _SPARK,
                "spark-token-provider-kafka-0-10_2.13",
                "4.2.0",
                "641c7947afc8aa1189e433b7c2d305293993c8691bc1c2062d6d4f513b12518c",
            ),
            Jar(
                "org.apache.kafka",
                "kafka-clients",
                "3.9.2",
                "014b4ef36884478a932641818b080c36a8f8e2e92dc771e800c9d2694f4f83d8",
            ),
            Jar(
                "org.apache.commons",
                "commons-pool2",
                "2.13.1",
                "f77a5060d6936a9144023584232f9de3f2248f1abfe156e9d31795f18770674f",
            ),
        ),
    }
)

LOCAL_FILES_JAR = Jar(
    "com.globalmentor",
    "hadoop-bare-naked-local-fs",
    "0.1.0",
    "e0cc30fb0531eb0b59468dc0abf5b257533d2365b5e9f45e795edd707aa78c62",
)
LOCAL_FILES_CLASS = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"


class SparkJarsError(UserError):
    """There is no set of connector jars for this Spark, or the override can't be read."""


def kafka_connector_jars(
    spark_version: str, progress: Callable[[JarProgress], None] | None = None
) -> list[Path]:
    """Paths of the jars that `spark.jars` must name for Spark `spark_version`.

    Raises SparkJarsError (unknown version, bad override) or MavenError (a jar could not be fetched).
    """
    override = os.environ.get(JARS_ENVIRONMENT)
    if override:
        return _overridden(override, progress)
    jars = KAFKA_CONNECTOR_JARS.get(spark_version)
    if jars is None:
        known = ", ".join(sorted(KAFKA_CONNECTOR_JARS))
        raise SparkJarsError(
            f"no Kafka connector is known for Spark {spark_version} (known: {known}): "
            f"name its jars in {JARS_ENVIRONMENT} as paths or group:artifact:version:sha256, comma-separated"
        )
    paths = fetch_jars(jars, progress)
    return [repaired(jar, path) for jar, path in zip(jars, paths, strict=True)]


def kafka_clients_jar() -> Path:
    """The Java clients of Kafka that the connector of the installed Spark uses, else of the newest known one.

    Raises MavenError.
    """
    try:
        known = KAFKA_CONNECTOR_JARS.get(metadata.version("pyspark"))
    except metadata.PackageNotFoundError:
        known = None
    jars = known or tuple(KAFKA_CONNECTOR_JARS.values())[-1]
    return fetch_jars([jar for jar in jars if jar.artifact == "kafka-clients"])[0]


def local_files_jar(progress: Callable[[JarProgress], None] | None = None) -> Path | None:
    """The jar of LOCAL_FILES_CLASS, Hadoop's local files in pure Java; None if it can't be fetched.

    Hadoop without its native library, as it is in PySpark, starts a process to set the permissions of each
    file and directory that it makes: 15 ms, twice a batch, and more often for state.
    """
    try:
        return fetch_jars([LOCAL_FILES_JAR], progress)[0]
    except MavenError as error:
        log.info("checkpoints are written the slower way: %s", error)
        return None


def _overridden(override: str, progress: Callable[[JarProgress], None] | None) -> list[Path]:
    wanted: list[Path | Jar] = []
    for entry in filter(None, (part.strip() for part in override.split(","))):
        parts = entry.split(":")
        if len(parts) == 4:
            try:
                wanted.append(Jar(*parts))
            except ValueError as error:
                raise SparkJarsError(f"{JARS_ENVIRONMENT}: {error}") from error
        elif Path(entry).is_file():
            wanted.append(Path(entry).absolute())
        else:
            raise SparkJarsError(
                f"{JARS_ENVIRONMENT}: {entry!r} is neither a file nor group:artifact:version:sha256"
            )
    fetched = iter(fetch_jars([jar for jar in wanted if isinstance(jar, Jar)], progress))
    return [entry if isinstance(entry, Path) else next(fetched) for entry in wanted]
