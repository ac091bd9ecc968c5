"""Documents in a Couchbase bucket, through its SDK (`pip install couchbase`), by N1QL where they are read.

Written as MongoDB's are: upserts and deletions by id, each idempotent; the field `_changed` orders reading.
The collections of the bucket's default scope must be there.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar, Final
from urllib.parse import unquote, urlsplit

from couchbase.auth import PasswordAuthenticator
from couchbase.cluster import Cluster
from couchbase.exceptions import (
    AmbiguousTimeoutException,
    DocumentNotFoundException,
    TemporaryFailException,
    UnAmbiguousTimeoutException,
)
from couchbase.options import ClusterOptions, QueryOptions

from ottla.connect.connectors.documents.store import Change, Stored, last_changes
from ottla.connect.connectors.ledger_writing import Plan
from ottla.connect.data.record import SourceOffset, TopicPartition
from ottla.connect.plugins.api import RetriableError

CHANGED: Final = "_changed"
LATE_MS: Final = 1000
TIMEOUT: Final = timedelta(seconds=10)
MAX_ID_BYTES: Final = 250
_SEQUENCE_BITS: Final = 10


class CouchbaseStore:
    """A `Store` in the bucket that the URL's path names. It keeps no offsets."""

    keeps_offsets: ClassVar[bool] = False

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        with _errors():
            authenticator = PasswordAuthenticator(
                unquote(parts.username or ""), unquote(parts.password or "")
            )
            host = parts.netloc.rpartition("@")[2]
            self._cluster = Cluster.connect(f"{parts.scheme}://{host}", ClusterOptions(authenticator))
            self._cluster.wait_until_ready(TIMEOUT)
            self._bucket = self._cluster.bucket(parts.path.strip("/"))
            self._scope = self._bucket.default_scope()
        self._last = 0

    def refusal(self, id: str, document: str) -> str | None:
        if not 0 < len(id.encode()) <= MAX_ID_BYTES:
            return f"Couchbase's ids have 1 to {MAX_ID_BYTES} bytes"
        return None

    def offsets(self, places: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return {}

    def write(self, places: Sequence[TopicPartition], plan: Plan[Change]) -> None:
        with _errors():
            for name, documents in last_changes(plan({}).changes).items():
                collection = self._scope.collection(name)
                changed = self._next_change()
                for id, text in documents.items():
                    if text is not None:
                        collection.upsert(id, {**json.loads(text), CHANGED: changed})
                        continue
                    try:
                        collection.remove(id)
                    except DocumentNotFoundException:
                        continue

    def read(self, collection: str, offset: SourceOffset | None, limit: int) -> Sequence[Stored]:
        changed, id = (-1, "") if offset is None else (offset["changed"], offset["id"])
        newest = int(time.time() * 1000 - LATE_MS) << _SEQUENCE_BITS
        name = collection.replace("`", "``")
        statement = (
            f"SELECT META(d).id AS id, d AS document FROM `{name}` AS d"
            f" WHERE d.{CHANGED} < $newest AND (d.{CHANGED} > $changed"
            f" OR (d.{CHANGED} = $changed AND META(d).id > $id))"
            f" ORDER BY d.{CHANGED}, META(d).id LIMIT $limit"
        )
        named: dict[str, Any] = {"newest": newest, "changed": changed, "id": id, "limit": limit}
        with _errors():
            rows = list(self._scope.query(statement, QueryOptions(named_parameters=named)))
        found = []
        for row in rows:
            fields = row["document"]
            last = int(fields.pop(CHANGED))
            found.append(Stored(row["id"], fields, {"changed": last, "id": row["id"]}))
        return found

    def close(self) -> None:
        self._cluster.close()

    def _next_change(self) -> int:
        # 53 bits: numbers of JavaScript, as N1QL compares them.
        now = int(time.time() * 1000) << _SEQUENCE_BITS | secrets.randbits(_SEQUENCE_BITS)
        self._last = max(self._last + 1, now)
        return self._last


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (AmbiguousTimeoutException, UnAmbiguousTimeoutException, TemporaryFailException) as problem:
        raise RetriableError(f"Couchbase: {str(problem)[:500]}") from problem
