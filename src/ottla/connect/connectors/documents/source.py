"""Documents read back in the order of their last changes; a document that changes again comes again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final
from urllib.parse import urlsplit

import ottla
from ottla.config.setting import HIGH, Table, by_name, integer, string
from ottla.config.settings import Settings
from ottla.config.validators import between, not_empty
from ottla.connect.connectors.common import NAME, ledger_name
from ottla.connect.connectors.documents.opening import STORE_URL, checked_store_url, open_store
from ottla.connect.connectors.documents.store import Store
from ottla.connect.data.record import Record, SourceOffset, SourcePartition, SourceRecord
from ottla.connect.data.schema import Schema, Type
from ottla.connect.plugins.required import Required, require

COLLECTION: Final = string.optional(
    "collection", "The collection or table of the documents.", Required(not_empty), importance=HIGH
)
TOPIC: Final = string.optional("topic", "The topic of the records.", Required(not_empty), importance=HIGH)
BATCH_SIZE: Final = integer("batch.size", 1000, "The most documents of a batch.", between(1, 100_000))

_ID: Final = Schema(Type.STRING)


class DocumentSource:
    """One source partition, the collection; the key is the document's id. Deletions are not seen."""

    TABLE: ClassVar[Table] = Table(
        "DocumentSource", by_name((STORE_URL, COLLECTION, TOPIC, BATCH_SIZE, NAME))
    )
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings) -> None:
        self._url = checked_store_url(settings)
        self._ledger = ledger_name(settings)
        self._collection = require(settings, COLLECTION)
        self._topic = require(settings, TOPIC)
        self._batch_size = settings[BATCH_SIZE]
        self._store: Store | None = None

    def partitions(self) -> Sequence[SourcePartition]:
        # The URL may have a password, and a server's address may change.
        return ({"store": urlsplit(self._url).scheme, "collection": self._collection},)

    def read(
        self, partition: SourcePartition, offset: SourceOffset | None
    ) -> Iterator[Sequence[SourceRecord]]:
        if self._store is None:
            self._store = open_store(self._url, self._ledger)
        while True:
            found = self._store.read(self._collection, offset, self._batch_size)
            yield [
                SourceRecord(
                    Record(self._topic, key=each.id, key_schema=_ID, value=dict(each.fields)),
                    partition,
                    each.offset,
                )
                for each in found
            ]
            if found:
                offset = found[-1].offset

    def committed(self, partition: SourcePartition, offset: SourceOffset) -> None:
        """Nothing is to be forgotten."""

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
