"""Plugins with the names and settings of Kafka's file connectors, for tests of the worker."""

from __future__ import annotations

from ottla.config.setting import HIGH, LOW, Table, by_name, integer, string
from ottla.connect.plugins.catalog import Kind, Plugin
from ottla.connect.plugins.required import Required

VERSION = "4.3.1"
_HERE = "support.connect.file_plugins"
_KAFKA = "org.apache.kafka.connect"


class FileSource:
    """Its one partition is its file."""

    TABLE = Table(
        "file source",
        by_name(
            (
                string.optional("file", "The file.", importance=HIGH),
                string.optional("topic", "The topic.", Required(), importance=HIGH),
                integer("batch.size", 2000, "The size of batches.", importance=LOW),
            )
        ),
    )


class FileSink:
    """Takes all records."""

    TABLE = Table("file sink", by_name((string.optional("file", "The file.", importance=HIGH),)))


PLUGINS = (
    Plugin((f"{_KAFKA}.file.FileStreamSourceConnector",), Kind.SOURCE, VERSION, f"{_HERE}:FileSource"),
    Plugin((f"{_KAFKA}.file.FileStreamSinkConnector",), Kind.SINK, VERSION, f"{_HERE}:FileSink"),
)
