"""Records as documents by their keys: written again they replace, a tombstone deletes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import ottla
from ottla.config.setting import HIGH, Table, boolean, by_name, string
from ottla.config.settings import Settings
from ottla.connect.connectors.common import GENERATION, NAME, ledger_name
from ottla.connect.connectors.documents.opening import STORE_URL, checked_store_url, open_store
from ottla.connect.connectors.documents.store import Change, Store
from ottla.connect.connectors.ledger_writing import LedgerWriting
from ottla.connect.connectors.plain import json_text, key_text, plain
from ottla.connect.data.record import Record, SinkRecord, TopicPartition
from ottla.connect.data.schema import DataError

TOPIC_NAME: Final = "${topic}"

COLLECTION: Final = string(
    "collection",
    TOPIC_NAME,
    "The collection or table of the documents; ${topic} stands for the record's topic.",
    importance=HIGH,
)
ID_FIELD: Final = string.optional(
    "id.field", "The field of the value that is the document's id. Without it, the record's key is."
)
DELETE_ON_NULL: Final = boolean(
    "delete.on.null.values", True, "A record without a value deletes the document of its key."
)


class DocumentSink:
    """Exactly once in stores with transactions, where the offsets are written with the documents."""

    TABLE: ClassVar[Table] = Table(
        "DocumentSink",
        by_name((STORE_URL, COLLECTION, ID_FIELD, DELETE_ON_NULL, NAME, GENERATION)),
    )
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings) -> None:
        self._url = checked_store_url(settings)
        self._ledger = ledger_name(settings)
        self._collection = settings[COLLECTION]
        self._id_field = settings[ID_FIELD]
        self._delete_on_null = settings[DELETE_ON_NULL]
        self._store: Store | None = None
        self._writing = LedgerWriting[Change](self._opened)

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return self._writing.open(partitions)

    def write(self, records: Sequence[SinkRecord]) -> None:
        self._writing.write(records, self._change)

    def flush(self) -> None:
        """Each batch is durable when `write` returns."""

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        self._writing.lose(partitions)

    def close(self) -> None:
        self._writing.close()

    def _opened(self) -> Store:
        self._store = open_store(self._url, self._ledger)
        return self._store

    def _change(self, each: SinkRecord) -> Change:
        return Change(each.place, each.offset, *self._document(each.record))

    def _document(self, record: Record) -> tuple[str, str, str | None]:
        """The collection, the id and the document in JSON of a record; None where it is to be deleted."""
        assert self._store is not None
        collection = self._collection.replace(TOPIC_NAME, record.topic)
        if record.value is None:
            if not self._delete_on_null:
                raise DataError(f"a record without a value, and {DELETE_ON_NULL.name} is false")
            return collection, _id(record.key), None
        fields = plain(record.value)
        if not isinstance(fields, dict):
            raise DataError("a document is made of a struct or an object alone")
        if self._id_field is None:
            id = _id(record.key)
        elif fields.get(self._id_field) is None:
            raise DataError(f"the value has no field {self._id_field!r} for the document's id")
        else:
            id = key_text(fields[self._id_field])
        document = json_text(fields)
        refusal = self._store.refusal(id, document)
        if refusal is not None:
            raise DataError(refusal)
        return collection, id, document


def _id(key: Any) -> str:
    if key is None:
        raise DataError("a record without a key has no id for its document")
    return key_text(key)
