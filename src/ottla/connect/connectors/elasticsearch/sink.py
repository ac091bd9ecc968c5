"""Records as documents of an index for each topic, by Elasticsearch's bulk requests.

A document whose id is the record's key has the record's offset as its version, so that writing again changes
nothing and an older record never replaces a newer one. Without keys the id is the record's place.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple
from urllib.parse import quote, urlsplit

import ottla
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.connectors.answered_records import AnsweredRecords, Place, place_of
from ottla.connect.connectors.elasticsearch import settings as options
from ottla.connect.connectors.elasticsearch.mapping import mapping
from ottla.connect.connectors.elasticsearch.settings import OnMalformed, OnNull, WriteMethod
from ottla.connect.connectors.plain import json_text, key_text, plain
from ottla.connect.data.record import SinkRecord, TopicPartition
from ottla.connect.data.schema import DataError, Schema, Type
from ottla.connect.plugins.api import RetriableError
from ottla.connect.plugins.required import require
from ottla.pipeline.stores import StoreError
from ottla.pipeline.stores.elasticsearch_http import ElasticsearchHttp, NoAnswer, Refused

log = logging.getLogger(__name__)

MAX_BACKOFF_SECONDS: Final = 10.0
MAX_ID_BYTES: Final = 512
_CONFLICT: Final = 409
_NOT_FOUND: Final = 404
_BUSY: Final = frozenset({429, 502, 503, 504})
_MALFORMED: Final = frozenset(
    {
        "action_request_validation_exception",
        "document_parsing_exception",
        "illegal_argument_exception",
        "mapper_parsing_exception",
        "strict_dynamic_mapping_exception",
    }
)


class _Action(NamedTuple):
    """The lines of a bulk request that are of one record."""

    place: Place
    line: str
    deletes: bool

    @property
    def size_bytes(self) -> int:
        return 4 * len(self.line) if not self.line.isascii() else len(self.line)


class ElasticsearchSink:
    """At least once, and with keys as ids the same as exactly once: versions are offsets."""

    TABLE: ClassVar[Table] = options.TABLE
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._sleep = sleep
        self._urls = require(settings, options.CONNECTION_URL)
        for url in self._urls:
            try:
                parts = urlsplit(url)
                wrong = parts.scheme not in ("http", "https") or not parts.hostname
            except ValueError:
                wrong = True
            if wrong:
                raise settings.refusal(options.CONNECTION_URL.name, "a URL looks like http://host:9200")
        user, secret = settings[options.CONNECTION_USERNAME], settings[options.CONNECTION_PASSWORD]
        if (user is None) != (secret is None):
            missing = options.CONNECTION_PASSWORD if secret is None else options.CONNECTION_USERNAME
            raise settings.refusal(missing.name, "user and password must be given together")
        self._credentials = None if user is None or secret is None else (user, secret.value)
        self._server: ElasticsearchHttp | None = None
        self._indexes: set[str] = set()
        """The indexes that are known to be there."""
        self._mapped: set[str] = set()
        """The indexes that have a mapping."""
        self._answered = AnsweredRecords()

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._answered.clear()
        return {}

    def write(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        actions: list[_Action] = []
        for each in records:
            place = place_of(each)
            if place in self._answered:
                continue
            try:
                action = self._action(place, each)
            except DataError as problem:
                if self._settings[options.DROP_INVALID_MESSAGE]:
                    log.warning("%s-%d offset %d is left out: %s", *each.place, each.offset, problem)
                else:
                    self._answered.keep(place, str(problem))
                continue
            if action is not None:
                actions.append(action)
        for bulk in self._bulks(actions):
            self._send(bulk)
        self._answered.end_batch(records)

    def flush(self) -> None:
        """A bulk request is durable when it is answered."""

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        self._answered.clear()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    # -- records to actions -------------------------------------------------------------------------

    def _action(self, place: Place, each: SinkRecord) -> _Action | None:
        """A record's part of a bulk request; None where there is nothing to do. Raises DataError."""
        record = each.record
        topic = record.topic
        index = topic.lower()
        key_ignored = self._settings[options.KEY_IGNORE] or topic in self._settings[options.TOPIC_KEY_IGNORE]
        if record.value is None:
            match self._settings[options.BEHAVIOR_ON_NULL_VALUES]:
                case OnNull.IGNORE:
                    return None
                case OnNull.FAIL:
                    raise DataError("a record without a value, and behavior.on.null.values is fail")
                case OnNull.DELETE if key_ignored or record.key is None:
                    return None  # no document can be of this record
        meta: dict[str, Any] = {"_index": index}
        if self._get_server().typed:
            meta["_type"] = "_doc"
        if key_ignored:
            meta["_id"] = f"{each.place.topic}+{each.place.partition}+{each.offset}"
        elif record.key is None:
            raise DataError("a record without a key has no id for its document; see key.ignore")
        else:
            meta["_id"] = key_text(record.key)
            if len(meta["_id"].encode()) > MAX_ID_BYTES:
                raise DataError(f"the key is longer than {MAX_ID_BYTES} bytes, the most of an id")
        version = {} if key_ignored else {"version": each.offset, "version_type": "external"}
        if record.value is None:
            return _Action(place, json.dumps({"delete": meta | version}) + "\n", True)
        fields = plain(record.value)
        if not isinstance(fields, dict):
            raise DataError("a document is made of a struct or an object alone")
        text = json_text(fields)
        self._prepare(index, record.value_schema if self._has_mapping_of(topic) else None)
        if self._settings[options.WRITE_METHOD] is WriteMethod.UPSERT and not key_ignored:
            head = json.dumps({"update": meta | {"retry_on_conflict": 5}})
            return _Action(place, f'{head}\n{{"doc":{text},"doc_as_upsert":true}}\n', False)
        return _Action(place, f"{json.dumps({'index': meta | version})}\n{text}\n", False)

    def _has_mapping_of(self, topic: str) -> bool:
        ignored = self._settings[options.TOPIC_SCHEMA_IGNORE]
        return not self._settings[options.SCHEMA_IGNORE] and topic not in ignored

    def _bulks(self, actions: Sequence[_Action]) -> Iterator[list[_Action]]:
        most, most_bytes = self._settings[options.BATCH_SIZE], self._settings[options.BULK_SIZE_BYTES]
        bulk: list[_Action] = []
        size_bytes = 0
        for action in actions:
            size_bytes += action.size_bytes
            if bulk and (len(bulk) >= most or 0 < most_bytes < size_bytes):
                yield bulk
                bulk, size_bytes = [], action.size_bytes
            bulk.append(action)
        if bulk:
            yield bulk

    # -- requests -----------------------------------------------------------------------------------

    def _send(self, bulk: list[_Action]) -> None:
        """Send a bulk until each of its documents is answered, and keep the answers."""
        delay_seconds = self._settings[options.RETRY_BACKOFF_MS] / 1000
        for retry in range(self._settings[options.MAX_RETRIES] + 1):
            if retry:
                self._sleep(min(delay_seconds, MAX_BACKOFF_SECONDS))
                delay_seconds *= 2
            answer = self._request("POST", "/_bulk", "".join(action.line for action in bulk))
            busy = []
            for action, item in zip(bulk, answer["items"], strict=True):
                (result,) = item.values()
                if int(result["status"]) in _BUSY:
                    busy.append(action)
                else:
                    self._answered.keep(action.place, self._refusal(action, result))
            if not busy:
                return
            bulk = busy
        raise RetriableError(f"Elasticsearch is too busy for {len(bulk)} documents")

    def _refusal(self, action: _Action, result: Mapping[str, Any]) -> str | None:
        """Why a document was refused, where that is an error; None where it was taken or is left out."""
        status = int(result["status"])
        if status < 300 or status == _CONFLICT or (action.deletes and status == _NOT_FOUND):
            return None  # a conflict: a newer record has written the document
        error = result.get("error", {})
        kind, reason = str(error.get("type", "")), _reasons(error)
        topic, partition = action.place[0]
        if kind not in _MALFORMED:
            raise StoreError(
                f"Elasticsearch did not take {topic}-{partition} offset {action.place[1]}: {reason}"
            )
        match self._settings[options.BEHAVIOR_ON_MALFORMED]:
            case OnMalformed.IGNORE:
                return None
            case OnMalformed.WARN:
                log.warning("%s-%d offset %d is left out: %s", topic, partition, action.place[1], reason)
                return None
        return reason

    def _prepare(self, index: str, schema: Schema | None) -> None:
        """Make an index where it is missing, and its mapping where it has none."""
        path = f"/{quote(index, safe='')}"
        if index not in self._indexes:
            try:
                self._request("PUT", path, "{}")
            except Refused as refused:
                if refused.kind == "invalid_index_name_exception":
                    raise DataError(str(refused)) from None
                if refused.kind != "resource_already_exists_exception":
                    raise
            self._indexes.add(index)
        if schema is None or schema.type is not Type.STRUCT or index in self._mapped:
            return
        typed = self._get_server().typed
        found = self._request("GET", f"{path}/_mapping{'?include_type_name=false' if typed else ''}")
        if not any(each["mappings"].get("properties") for each in found.values()):
            path = f"{path}/_mapping{'/_doc' if typed else ''}"
            self._request("PUT", path, json.dumps(mapping(schema)))
        self._mapped.add(index)

    def _request(self, method: str, path: str, body: str | None = None) -> Any:
        """An answer; another server is asked next time where this one gives none. Raises RetriableError."""
        try:
            return self._get_server().request(method, path, body)
        except NoAnswer as problem:
            self.close()
            raise RetriableError(str(problem)) from problem
        except Refused as refused:
            if refused.status in _BUSY:
                raise RetriableError(str(refused)) from refused
            raise

    def _get_server(self) -> ElasticsearchHttp:
        if self._server is not None:
            return self._server
        timeouts = (
            self._settings[options.CONNECTION_TIMEOUT_MS] / 1000,
            self._settings[options.READ_TIMEOUT_MS] / 1000,
        )
        problems = []
        for url in self._urls:
            try:
                self._server = ElasticsearchHttp(url, self._credentials, timeouts, ())
                return self._server
            except NoAnswer as problem:
                problems.append(str(problem))
            except Refused as refused:
                if refused.status not in _BUSY:
                    raise
                problems.append(str(refused))
        raise RetriableError("; ".join(problems))


def _reasons(error: Any) -> str:
    """The reason of an error, with those that caused it."""
    found = []
    while isinstance(error, Mapping):
        found.append(str(error.get("reason", error.get("type", ""))))
        error = error.get("caused_by")
    return ": ".join(found) or str(error)
