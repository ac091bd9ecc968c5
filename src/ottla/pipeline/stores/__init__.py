"""Stores for a pipeline's documents: document stores and search indexes behind two small interfaces.

Every store is written in batches and idempotently: a document has an id, and writing it again replaces it.
So a batch that Spark repeats after a crash changes nothing. A store with transactions also records the batch
in the same transaction as the documents (`DocumentStore.write_batch`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.config.errors import UserError


class StoreError(UserError):
    """A store can't be opened, written or read; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its id, and its fields as JSON values (the id is a field, too)."""

    id: str
    fields: Mapping[str, object]


KEPT_BATCHES = 1000
"""The number of batches that a store records for a query; Spark itself can go back a hundred."""

Outputs = Mapping[str, Mapping[int, int]]
"""For each topic a batch has written: the offset after its last record, by partition."""


class DocumentStore(Protocol):
    """Keeps documents by id, and records which batches of which query it has."""

    @property
    def name(self) -> str:
        """The kind of store, for messages: `sqlite`, `postgresql`."""

    @property
    def identity(self) -> str:
        """A random id made together with the store: a store that is deleted and made again has another."""

    def write_batch(self, query: str, batch_id: int, documents: Sequence[Document], outputs: Outputs) -> None:
        """Insert or replace the documents and record the batch, all in one transaction."""

    def outputs_before(self, query: str, batch_id: int) -> dict[str, dict[int, int]]:
        """The outputs recorded with the query's latest batch before `batch_id`; empty if there is none."""

    def count(self) -> int:
        """How many documents it holds."""

    def ids(self) -> Iterator[str]:
        """The id of every document, once for each document."""

    def close(self) -> None:
        """Release it. Safe to call twice."""


class SearchIndex(Protocol):
    """Keeps documents by id for full-text search."""

    @property
    def name(self) -> str:
        """The kind of index, for messages: `tantivy`, `elasticsearch`."""

    @property
    def identity(self) -> str:
        """A random id made together with the index: an index that is deleted and made again has another."""

    def write_batch(self, documents: Sequence[Document]) -> None:
        """Insert or replace the documents. They are durable when this returns."""

    def count(self) -> int:
        """How many documents it holds."""

    def ids(self) -> Iterator[str]:
        """The id of every document, once for each document."""

    def search(self, text: str, limit: int = 10) -> list[str]:
        """Ids of documents whose text has the words of `text`, best first."""

    def close(self) -> None:
        """Release it. Safe to call twice."""
