"""A session on a Spark Connect server, `sc://host:port`, without a JVM in this process's care.

The server has its own master, memory and log. Properties that a running Spark takes (those of `spark.sql`)
are set on the session; the others must be set where the server is started, and a property that the user gave
and the server refuses is an error. A server without a Kafka connector gets the jars as artifacts of the
session.

A Connect session has no `SparkContext`, RDDs or py4j, so no code may call the JVM by name. DataFrames,
streaming queries, their listeners, UDFs and Python data sources work; Python functions need the same Python
minor version and packages on the server's workers as here.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ottla.pipeline.spark.errors import SparkError
from ottla.pipeline.spark.maven import JarProgress
from ottla.pipeline.spark.spark_jars import kafka_connector_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_PORT = 15002
REACH_TIMEOUT_SECONDS = 10.0
_CONNECT_MODE = "SPARK_CONNECT_MODE_ENABLED"
_REMOTE = "SPARK_REMOTE"
# The properties that ottla's queries rely on, as session.py sets them for its own Spark.
_DEFAULTS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
}

log = logging.getLogger("ottla.pipeline")


def connect(
    address: str,
    properties: Mapping[str, str],
    jars: Sequence[Path] | None,
    progress: Callable[[JarProgress], None] | None,
) -> SparkSession:
    """A new session on the server at `address`. Raises SparkError with one line for the user."""
    host, port = _host_and_port(address)
    try:
        # Spark's client tries for ten minutes to reach a server that does not answer.
        socket.create_connection((host, port), REACH_TIMEOUT_SECONDS).close()
    except OSError as error:
        raise SparkError(f"no Spark Connect server answers at {host}:{port}: {error}") from error
    try:
        from pyspark.errors import PySparkImportError
        from pyspark.sql import SparkSession

        spark: SparkSession = SparkSession.builder.remote(address).create()
    except PySparkImportError as error:
        _forget()
        raise SparkError(
            f"Spark Connect needs three packages more: pip install grpcio grpcio-status "
            f"googleapis-common-protos ({_first_line(error)})"
        ) from error
    except Exception as error:
        _forget()
        raise SparkError(f"no Spark session at {address}: {_first_line(error)}") from error
    os.environ[_CONNECT_MODE] = "1"
    try:
        _configure(spark, address, properties)
        _ensure_kafka_connector(spark, address, jars, progress)
    except BaseException:
        disconnect(spark)
        raise
    return spark


def disconnect(spark: SparkSession) -> None:
    """Release the session; the server goes on. Safe to call twice."""
    with contextlib.suppress(Exception):  # the server may be gone
        spark.stop()
    _forget()


def _forget() -> None:
    """Clear the environment variables by which PySpark's functions build Connect's expressions."""
    os.environ.pop(_CONNECT_MODE, None)
    os.environ.pop(_REMOTE, None)


def _configure(spark: SparkSession, address: str, properties: Mapping[str, str]) -> None:
    for key, value in _DEFAULTS.items():
        if key not in properties:
            with contextlib.suppress(Exception):
                spark.conf.set(key, value)
    for key, value in properties.items():
        if key == "spark.master":
            continue
        try:
            spark.conf.set(key, value)
        except Exception as error:
            raise SparkError(
                f"the Spark Connect server at {address} does not take {key}: {_first_line(error)} "
                "Set it where the server is started."
            ) from error


def _ensure_kafka_connector(
    spark: SparkSession,
    address: str,
    jars: Sequence[Path] | None,
    progress: Callable[[JarProgress], None] | None,
) -> None:
    if jars is None and _has_kafka_connector(spark):
        return
    wanted = list(jars) if jars is not None else kafka_connector_jars(spark.version, progress)
    try:
        spark.addArtifacts(*map(str, wanted))
    except Exception as error:
        raise SparkError(
            f"{address} does not take the Kafka connector's jars: {_first_line(error)}"
        ) from error
    if not _has_kafka_connector(spark):
        raise SparkError(
            f"the Spark Connect server at {address} has no Kafka connector: start it with "
            f"--jars {','.join(path.name for path in wanted)}"
        )


def _has_kafka_connector(spark: SparkSession) -> bool:
    """Whether the server has the Kafka source; asking for its schema opens no connection to a broker."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "127.0.0.1:1")
    try:
        return bool(reader.option("subscribe", "any").load().columns)
    except Exception as error:
        log.debug("no Kafka connector on the server: %s", error)
        return False


def _host_and_port(address: str) -> tuple[str, int]:
    try:
        parts = urlsplit(address.partition(";")[0])
        port = parts.port or DEFAULT_PORT
    except ValueError:
        parts, port = urlsplit("sc://"), 0
    if not parts.hostname:
        raise SparkError(f"{address} is no Spark Connect address: it looks like sc://host:15002")
    return parts.hostname, port


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
