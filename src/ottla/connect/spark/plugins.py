"""The connectors that run on Spark, by ottla's names and by those of Java's connectors."""

from __future__ import annotations

from typing import Final

import ottla
from ottla.connect.plugins.catalog import Engine, Kind, Plugin

_HERE: Final = "ottla.connect.spark"
PLUGINS: Final[tuple[Plugin, ...]] = (
    Plugin(
        (
            f"{_HERE}.IcebergSinkConnector",
            "org.apache.iceberg.connect.IcebergSinkConnector",
            "io.tabular.iceberg.connect.IcebergSinkConnector",
        ),
        Kind.SINK,
        "1.11.0",
        f"{_HERE}.iceberg.sink:IcebergSink",
        Engine.SPARK,
    ),
    Plugin(
        (
            f"{_HERE}.FileSinkConnector",
            "io.confluent.connect.s3.S3SinkConnector",
            "io.confluent.connect.hdfs.HdfsSinkConnector",
            "io.confluent.connect.hdfs3.Hdfs3SinkConnector",
        ),
        Kind.SINK,
        "1.0.0",
        f"{_HERE}.files.sink:FileSink",
        Engine.SPARK,
    ),
    Plugin((f"{_HERE}.DeltaSinkConnector",), Kind.SINK, "4.1.0", f"{_HERE}.delta:DeltaSink", Engine.SPARK),
    Plugin(
        (f"{_HERE}.SparkJdbcSinkConnector",),
        Kind.SINK,
        ottla.__version__,
        f"{_HERE}.jdbc.sink:JdbcSparkSink",
        Engine.SPARK,
    ),
    Plugin(
        (f"{_HERE}.SparkFormatSinkConnector",),
        Kind.SINK,
        "1.0.0",
        f"{_HERE}.any_format:FormatSink",
        Engine.SPARK,
    ),
    Plugin(
        (f"{_HERE}.SparkFormatSourceConnector",),
        Kind.SOURCE,
        "1.0.0",
        f"{_HERE}.source:FormatSource",
        Engine.SPARK,
    ),
)
