"""Documents in MongoDB, through pymongo: upserts and deletions by `_id`, each of them idempotent.

A document has the time of its last change in the field `_changed`, a number that grows: milliseconds and a
count. Documents are read back in its order, a moment late, so that writers with clocks that differ by less
are not passed; those whose clocks differ more must not write one collection that is read.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

import pymongo
import pymongo.errors
from pymongo.collection import Collection

from ottla.connect.connectors.documents.store import Change, Stored, last_changes
from ottla.connect.connectors.ledger_writing import Plan
from ottla.connect.data.record import SourceOffset, TopicPartition
from ottla.connect.plugins.api import RetriableError

CHANGED: Final = "_changed"
LATE_MS: Final = 1000
"""Documents are read this long after their change."""
TIMEOUT_MS: Final = 10_000
MAX_INT64: Final = 2**63 - 1
_SEQUENCE_BITS: Final = 20


class MongoStore:
    """A `Store` in the URL's database. It keeps no offsets: written again, a document is the same."""

    keeps_offsets: ClassVar[bool] = False

    def __init__(self, url: str) -> None:
        with _errors():
            self._client: pymongo.MongoClient[dict[str, Any]] = pymongo.MongoClient(
                url, serverSelectionTimeoutMS=TIMEOUT_MS, socketTimeoutMS=TIMEOUT_MS, appname="ottla"
            )
            self._database = self._client.get_default_database("ottla")
        self._indexed: set[str] = set()
        # Two writers that write in one millisecond have different numbers, but for one chance in a million.
        self._last = secrets.randbits(_SEQUENCE_BITS)

    def refusal(self, id: str, document: str) -> str | None:
        return mongo_refusal(json.loads(document))

    def offsets(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {}

    def write(self, places: Sequence[TopicPartition], plan: Plan[Change]) -> None:
        with _errors():
            for name, documents in last_changes(plan({}).changes).items():
                collection = self._database[name]
                if name not in self._indexed:
                    collection.create_index([(CHANGED, pymongo.ASCENDING), ("_id", pymongo.ASCENDING)])
                    self._indexed.add(name)
                changed = self._next_change()
                collection.bulk_write(
                    [
                        pymongo.DeleteOne({"_id": id})
                        if text is None
                        else pymongo.ReplaceOne(
                            {"_id": id}, {**json.loads(text), "_id": id, CHANGED: changed}, upsert=True
                        )
                        for id, text in documents.items()
                    ]
                )

    def read(self, collection: str, offset: SourceOffset | None, limit: int) -> Sequence[Stored]:
        newest = int(time.time() * 1000 - LATE_MS) << _SEQUENCE_BITS
        query: dict[str, Any] = {CHANGED: {"$lt": newest}}
        if offset is not None:
            changed, id = offset["changed"], offset["id"]
            query["$or"] = [{CHANGED: {"$gt": changed}}, {CHANGED: changed, "_id": {"$gt": id}}]
        order = [(CHANGED, pymongo.ASCENDING), ("_id", pymongo.ASCENDING)]
        with _errors():
            found = list(self._collection(collection).find(query, sort=order, limit=limit))
        stored = []
        for fields in found:
            id, changed = str(fields.pop("_id")), int(fields.pop(CHANGED))
            stored.append(Stored(id, fields, {"changed": changed, "id": id}))
        return stored

    def close(self) -> None:
        self._client.close()

    def _collection(self, name: str) -> Collection[dict[str, Any]]:
        return self._database[name]

    def _next_change(self) -> int:
        """A number above all that this object gave before, whose upper bits are milliseconds."""
        now = int(time.time() * 1000) << _SEQUENCE_BITS | secrets.randbits(_SEQUENCE_BITS)
        self._last = max(self._last + 1, now)
        return self._last


def mongo_refusal(value: Any) -> str | None:
    """Why a JSON value can't be in a document of MongoDB, or None."""
    match value:
        case bool():
            return None
        case int() if not -MAX_INT64 - 1 <= value <= MAX_INT64:
            return "MongoDB's numbers have at most 64 bits"
        case Mapping():
            if any("\0" in name for name in value):
                return "MongoDB's field names can't have the character NUL"
            return next(filter(None, map(mongo_refusal, value.values())), None)
        case list():
            return next(filter(None, map(mongo_refusal, value)), None)
    return None


@contextmanager
def _errors() -> Iterator[None]:
    """A server that is away is tried again; other errors end the task. No message has the URL's password."""
    try:
        yield
    except (pymongo.errors.AutoReconnect, pymongo.errors.ExecutionTimeout) as problem:
        raise RetriableError(f"MongoDB: {str(problem)[:500]}") from problem
