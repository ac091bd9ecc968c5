"""Where a pipeline lands its documents: document stores and search indexes behind two small interfaces.

Every store is written a batch at a time and idempotently: a document has an id, and writing it again replaces
it. So a batch that Spark repeats after a crash changes nothing. A store that has transactions also records
the batch in the same transaction as the documents (`DocumentStore.write_batch`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ottla.config.errors import UserError


class StoreError(UserError):
    """A store cannot be opened, written or read; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class Document:
    """One thing to store: its id and its fields as JSON can hold them (the id is a field, too)."""

    id: str
    fields: Mapping[str, object]


KEPT_BATCHES = 1000
"""Batch rows a store keeps for a query; Spark itself can go back a hundred."""

Outputs = Mapping[str, Mapping[int, int]]
"""For each topic a batch has written: the offset after its last record, by partition."""


class DocumentStore(Protocol):
    """Keeps documents by id, and which batches of which query it holds."""

    @property
    def name(self) -> str:
        """What it is, for people: `sqlite`, `postgresql`."""

    @property
    def identity(self) -> str:
        """A random id that was made with the store: one that was deleted and made again has another."""

    def write_batch(self, query: str, batch_id: int, documents: Sequence[Document], outputs: Outputs) -> None:
        """Insert or replace the documents and record the batch, all in one transaction."""

    def outputs_before(self, query: str, batch_id: int) -> dict[str, dict[int, int]]:
        """The outputs recorded with the query's latest batch before `batch_id`; empty when there is none."""

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
        """What it is, for people: `tantivy`, `elasticsearch`."""

    @property
    def identity(self) -> str:
        """A random id that was made with the index: one that was deleted and made again has another."""

    def write_batch(self, documents: Sequence[Document]) -> None:
        """Insert or replace the documents; durable when it returns."""

    def count(self) -> int:
        """How many documents it holds."""

    def ids(self) -> Iterator[str]:
        """The id of every document, once for each document."""

    def search(self, text: str, limit: int = 10) -> list[str]:
        """Ids of documents whose text has the words of `text`, best first."""

    def close(self) -> None:
        """Release it. Safe to call twice."""
