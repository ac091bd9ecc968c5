"""The connectors of this package that run as Python tasks, as plugins."""

from __future__ import annotations

from typing import Final

import ottla
from ottla.connect.plugins.catalog import Kind, Plugin

_ROOM: Final = "ottla.connect.connectors"


def _plugin(kind: Kind, target: str, *names: str) -> Plugin:
    return Plugin(names, kind, ottla.__version__, f"{_ROOM}.{target}")


PLUGINS: Final[tuple[Plugin, ...]] = (
    _plugin(
        Kind.SOURCE,
        "jdbc.source:JdbcSource",
        "io.confluent.connect.jdbc.JdbcSourceConnector",
        "ottla.connect.JdbcSource",
    ),
    _plugin(
        Kind.SINK,
        "jdbc.sink:JdbcSink",
        "io.confluent.connect.jdbc.JdbcSinkConnector",
        "ottla.connect.JdbcSink",
    ),
    _plugin(
        Kind.SINK,
        "mongodb.sink:MongoSink",
        "com.mongodb.kafka.connect.MongoSinkConnector",
        "ottla.connect.MongoSink",
    ),
    _plugin(
        Kind.SINK,
        "http.sink:HttpSink",
        "io.aiven.kafka.connect.http.HttpSinkConnector",
        "ottla.connect.HttpSink",
    ),
    _plugin(
        Kind.SINK,
        "redis.sink:RedisSink",
        "com.github.jcustenborder.kafka.connect.redis.RedisSinkConnector",
        "ottla.connect.RedisSink",
    ),
    _plugin(
        Kind.SINK,
        "elasticsearch.sink:ElasticsearchSink",
        "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
        "ottla.connect.ElasticsearchSink",
    ),
    _plugin(Kind.SOURCE, "documents.source:DocumentSource", "ottla.connect.DocumentSource"),
    _plugin(Kind.SINK, "documents.sink:DocumentSink", "ottla.connect.DocumentSink"),
    _plugin(Kind.SOURCE, "directory.source:DirectorySource", "ottla.connect.DirectorySource"),
    _plugin(Kind.SINK, "directory.sink:DirectorySink", "ottla.connect.DirectorySink"),
    _plugin(
        Kind.SOURCE,
        "datagen.source:DatagenSource",
        "io.confluent.kafka.connect.datagen.DatagenConnector",
        "ottla.connect.Datagen",
    ),
    _plugin(
        Kind.SOURCE,
        "file_source:FileStreamSource",
        "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "ottla.connect.FileStreamSource",
    ),
    _plugin(
        Kind.SINK,
        "file_sink:FileStreamSink",
        "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "ottla.connect.FileStreamSink",
    ),
)
