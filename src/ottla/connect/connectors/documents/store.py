"""What a document store is to its sink and its source, whichever system it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ottla.connect.connectors.ledger_writing import LedgerStore
from ottla.connect.data.record import SourceOffset, TopicPartition


class Change(NamedTuple):
    """A record as the change of a document; its JSON text is None where it is to be deleted."""

    place: TopicPartition
    offset: int
    collection: str
    id: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Stored:
    """A document as it is read back, and the place after it in the order of reading."""

    id: str
    fields: Mapping[str, Any]
    offset: SourceOffset


class Store(LedgerStore[Change], Protocol):
    """Collections of documents by id. Used by one thread."""

    def refusal(self, id: str, document: str) -> str | None:
        """Why the store can't have a document, or None."""

    def read(self, collection: str, offset: SourceOffset | None, limit: int) -> Sequence[Stored]:
        """Documents that were written after an offset, each in its latest state; none: there are none now."""


def last_changes(changes: Sequence[Change]) -> dict[str, dict[str, str | None]]:
    """The last text of each document, by collection and id."""
    found: dict[str, dict[str, str | None]] = {}
    for each in changes:
        found.setdefault(each.collection, {})[each.id] = each.text
    return found
