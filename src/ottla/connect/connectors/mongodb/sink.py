"""The sink of MongoDB's Kafka connector: ids by its strategies, documents replaced or deleted by them."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import ottla
from ottla.config.setting import HIGH, Table, boolean, by_name, integer, password, string
from ottla.config.settings import Settings
from ottla.config.unsupported import harmless, merged, refusing
from ottla.config.validators import OneOf, between, not_empty
from ottla.connect.connectors.batches import made_of
from ottla.connect.connectors.plain import plain
from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.data.schema import DataError
from ottla.connect.plugins.api import RetriableError
from ottla.connect.plugins.required import Required, require

_STRATEGIES: Final = "com.mongodb.kafka.connect.sink.processor.id.strategy."
_WRITE_MODELS: Final = "com.mongodb.kafka.connect.sink.writemodel.strategy."
_ID_STRATEGIES: Final = (
    "BsonOidStrategy",
    "FullKeyStrategy",
    "KafkaMetaDataStrategy",
    "ProvidedInKeyStrategy",
    "ProvidedInValueStrategy",
)
_MODEL_STRATEGIES: Final = (
    "DefaultWriteModelStrategy",
    "InsertOneDefaultStrategy",
    "ReplaceOneDefaultStrategy",
)
TIMEOUT_MS: Final = 10_000

CONNECTION_URI: Final = password.optional(
    "connection.uri", "The server: mongodb://user:password@host:port.", Required(), importance=HIGH
)
DATABASE: Final = string.optional("database", "The database.", Required(not_empty), importance=HIGH)
COLLECTION: Final = string.optional(
    "collection", "The collection; without it, the topic's name is.", importance=HIGH
)
ID_STRATEGY: Final = string(
    "document.id.strategy",
    f"{_STRATEGIES}BsonOidStrategy",
    "How a document's _id is made: at random, or of the key, the value, or the record's place.",
    OneOf(tuple(_STRATEGIES + name for name in _ID_STRATEGIES)),
)
WRITE_MODEL: Final = string(
    "writemodel.strategy",
    f"{_WRITE_MODELS}DefaultWriteModelStrategy",
    "Whether documents replace those of their _id, or are inserted. By default they replace.",
    OneOf(tuple(_WRITE_MODELS + name for name in _MODEL_STRATEGIES)),
)
DELETE_ON_NULL: Final = boolean(
    "delete.on.null.values", False, "A record without a value deletes the document of its key."
)
MAX_BATCH_SIZE: Final = integer(
    "max.batch.size", 0, "The most documents of a request; 0: all of a batch.", between(0, 1_000_000)
)


class MongoSink:
    """At least once: the same as exactly once where ids come of the record, not with BsonOidStrategy."""

    TABLE: ClassVar[Table] = Table(
        "MongoSink",
        by_name(
            (CONNECTION_URI, DATABASE, COLLECTION, ID_STRATEGY, WRITE_MODEL, DELETE_ON_NULL, MAX_BATCH_SIZE)
        ),
        unsupported=merged(
            [
                harmless("the runtime has its own", "rate.limiting.timeout", "rate.limiting.every.n"),
                harmless("batches are written in order", "bulk.write.ordered", nothing=("true",)),
                harmless("the runtime tries again", "max.num.retries", "retries.defer.timeout"),
                refusing(
                    "records are changed by transforms",
                    "post.processor.chain",
                    "change.data.capture.handler",
                    "field.renamer.mapping",
                    "field.renamer.regexp",
                    "value.projection.type",
                    "key.projection.type",
                    nothing=("none", "com.mongodb.kafka.connect.sink.processor.documentidadder", "[]"),
                ),
                refusing(
                    "time series are not written",
                    "timeseries.timefield",
                    "timeseries.metafield",
                    nothing=("",),
                ),
            ]
        ),
    )
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings) -> None:
        if importlib.util.find_spec("pymongo") is None:
            raise settings.refusal(
                CONNECTION_URI.name, "the package pymongo is not installed: pip install pymongo"
            )
        self._uri = require(settings, CONNECTION_URI).value
        if not self._uri.startswith(("mongodb://", "mongodb+srv://")):
            raise settings.refusal(CONNECTION_URI.name, "a URI begins with mongodb:// or mongodb+srv://")
        self._database_name = require(settings, DATABASE)
        self._collection = settings[COLLECTION]
        self._id_strategy = settings[ID_STRATEGY].removeprefix(_STRATEGIES)
        self._inserts = settings[WRITE_MODEL].endswith("InsertOneDefaultStrategy")
        self._delete_on_null = settings[DELETE_ON_NULL]
        if self._delete_on_null and self._id_strategy not in ("FullKeyStrategy", "ProvidedInKeyStrategy"):
            raise settings.refusal(DELETE_ON_NULL.name, "documents are deleted by ids that come of the key")
        self._batch_size = settings[MAX_BATCH_SIZE] or 1_000_000
        self._client: Any = None

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {}

    def write(self, records: Sequence[SinkRecord]) -> None:
        made, refusal = made_of(records, self._model)
        writes: dict[str, list[Any]] = {}
        for each, model in zip(records, made, strict=False):
            if model is not None:
                writes.setdefault(self._collection or each.record.topic, []).append(model)
        for collection, models in writes.items():
            for start in range(0, len(models), self._batch_size):
                self._write(collection, models[start : start + self._batch_size])
        if refusal is not None:
            raise refusal

    def flush(self) -> None:
        """A batch is with the server when `write` returns."""

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _model(self, each: SinkRecord) -> Any:
        """The write of a record; None where there is nothing to do. Raises DataError."""
        import pymongo
        from bson import encode
        from bson.errors import BSONError

        record = each.record
        if record.value is None:
            return pymongo.DeleteOne({"_id": self._id(each)}) if self._delete_on_null else None
        document = _document(record.value, "a document")
        id = self._id(each)
        if id is not None:
            document["_id"] = id
        try:
            encode(document)
        except (BSONError, OverflowError, UnicodeEncodeError) as problem:
            raise DataError(f"MongoDB can't have the document: {problem}") from None
        if self._inserts or id is None:
            return pymongo.InsertOne(document)
        return pymongo.ReplaceOne({"_id": id}, document, upsert=True)

    def _id(self, each: SinkRecord) -> Any:
        """The _id of a record's document; None lets the driver make one."""
        record: Record = each.record
        match self._id_strategy:
            case "KafkaMetaDataStrategy":
                return f"{each.place.topic}#{each.place.partition}#{each.offset}"
            case "FullKeyStrategy":
                if record.key is None:
                    raise DataError("a record without a key has no id for its document")
                return plain(record.key)
            case "ProvidedInKeyStrategy":
                return _provided(record.key, "key")
            case "ProvidedInValueStrategy":
                return _provided(record.value, "value")
        return None

    def _write(self, collection: str, models: Sequence[Any]) -> None:
        import pymongo
        import pymongo.errors

        try:
            if self._client is None:
                self._client = pymongo.MongoClient(
                    self._uri,
                    serverSelectionTimeoutMS=TIMEOUT_MS,
                    socketTimeoutMS=TIMEOUT_MS,
                    appname="ottla",
                )
            self._client[self._database_name][collection].bulk_write(models)
        except (pymongo.errors.AutoReconnect, pymongo.errors.ExecutionTimeout) as problem:
            raise RetriableError(f"MongoDB: {str(problem)[:500]}") from problem


def _document(value: Any, noun: str) -> dict[str, Any]:
    document = plain(value)
    if not isinstance(document, dict):
        raise DataError(f"{noun} is made of a struct or an object alone")
    return document


def _provided(value: Any, part: str) -> Any:
    document = _document(value, f"the _id in the {part}")
    if document.get("_id") is None:
        raise DataError(f"the {part} has no field _id")
    return document["_id"]
