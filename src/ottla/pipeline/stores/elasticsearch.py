"""The search index on Elasticsearch's HTTP API: versions 6.8, 7 and 8, and OpenSearch.

A batch is one `_bulk` request for every thousand documents, with explicit ids, so that repeating it replaces
the same documents. Version 6 requires a type in the path (`_doc`) and a parameter for mappings without types;
later versions refuse both.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import requests

from ottla.pipeline.stores import Document, StoreError

BULK_DOCUMENTS = 1000
PAGE_DOCUMENTS = 1000
TIMEOUT_SECONDS = (10.0, 60.0)
BUSY_DELAYS_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)

# `english` finds "running" for "run"; a server without its analysis module has only `standard`.
_ANALYZERS = ("english", "standard")


class ElasticsearchIndex:
    """A `SearchIndex` at an Elasticsearch URL, `http://[user:password@]host:port`."""

    name = "elasticsearch"

    def __init__(self, url: str, index: str = "tweets") -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise StoreError("an Elasticsearch URL looks like http://host:9200")
        host = parts.netloc.rpartition("@")[2]
        self._base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._index = quote(index, safe="")
        self._session = requests.Session()
        if parts.username is not None:
            self._session.auth = (parts.username, parts.password or "")
        about = self._request("GET", "/")
        version = about.get("version", {}) if isinstance(about, dict) else {}
        distribution = str(version.get("distribution", "elasticsearch"))
        major = str(version.get("number", "")).partition(".")[0]
        if not major.isdigit() or (distribution == "elasticsearch" and int(major) < 6):
            raise StoreError(f"{self._base} is not Elasticsearch 6.8 or later, nor OpenSearch")
        self._typed = distribution == "elasticsearch" and int(major) == 6
        self._create()

    @property
    def identity(self) -> str:
        settings = self._request("GET", f"/{self._index}/_settings")
        return str(next(iter(settings.values()))["settings"]["index"]["uuid"])

    def write_batch(self, documents: Sequence[Document]) -> None:
        path = f"/{self._index}/_doc/_bulk" if self._typed else f"/{self._index}/_bulk"
        for start in range(0, len(documents), BULK_DOCUMENTS):
            self._bulk(path, documents[start : start + BULK_DOCUMENTS])

    def count(self) -> int:
        self._request("POST", f"/{self._index}/_refresh")
        return int(self._request("GET", f"/{self._index}/_count")["count"])

    def ids(self) -> Iterator[str]:
        self._request("POST", f"/{self._index}/_refresh")
        body: dict[str, Any] = {"size": PAGE_DOCUMENTS, "_source": False, "sort": [{"id": "asc"}]}
        while hits := self._search(body):
            yield from (str(hit["_id"]) for hit in hits)
            body["search_after"] = hits[-1]["sort"]

    def search(self, text: str, limit: int = 10) -> list[str]:
        self._request("POST", f"/{self._index}/_refresh")
        body = {"size": limit, "_source": False, "query": {"match": {"text": text}}}
        return [str(hit["_id"]) for hit in self._search(body)]

    def close(self) -> None:
        self._session.close()

    def _search(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = self._request("POST", f"/{self._index}/_search", json.dumps(body))
        hits: list[dict[str, Any]] = found["hits"]["hits"]
        return hits

    def _create(self) -> None:
        path = f"/{self._index}" + ("?include_type_name=false" if self._typed else "")
        for analyzer in _ANALYZERS:
            try:
                self._request("PUT", path, json.dumps(_index_settings(analyzer)))
                return
            except _Refused as refused:
                if refused.kind == "resource_already_exists_exception":
                    return
                if refused.kind != "mapper_parsing_exception" or analyzer == _ANALYZERS[-1]:
                    raise

    def _bulk(self, path: str, documents: Sequence[Document]) -> None:
        pending = list(documents)
        for delay_seconds in (*BUSY_DELAYS_SECONDS, None):
            lines = []
            for document in pending:
                lines.append(json.dumps({"index": {"_id": document.id}}))
                lines.append(json.dumps(document.fields))
            answer = self._request("POST", path, "\n".join(lines) + "\n")
            if not answer.get("errors"):
                return
            results = [item["index"] for item in answer["items"]]
            failed = [result for result in results if result["status"] >= 300]
            refused = next((result for result in failed if result["status"] != 429), None)
            if refused is not None or delay_seconds is None:
                reason = (refused or failed[0]).get("error", {})
                raise StoreError(f"{self._base} did not take a document: {reason.get('reason', reason)}")
            busy = {result["_id"] for result in failed}
            pending = [document for document in pending if document.id in busy]
            time.sleep(delay_seconds)

    def _request(self, method: str, path: str, body: str | None = None) -> Any:
        content = "application/x-ndjson" if path.endswith("_bulk") else "application/json"
        for delay_seconds in (*BUSY_DELAYS_SECONDS, None):
            try:
                response = self._session.request(
                    method,
                    self._base + path,
                    data=body.encode() if body is not None else None,
                    headers={"Content-Type": content} if body is not None else {},
                    timeout=TIMEOUT_SECONDS,
                )
            except requests.RequestException as error:
                raise StoreError(f"no answer from Elasticsearch at {self._base}: {error}") from error
            if response.status_code in (429, 503) and delay_seconds is not None:
                time.sleep(delay_seconds)
                continue
            if response.status_code >= 300:
                raise _Refused(self._base, response)
            try:
                return response.json()
            except ValueError as error:
                raise StoreError(f"{self._base} does not answer as Elasticsearch does") from error
        raise AssertionError("the last turn of the loop returns or raises")


def _index_settings(analyzer: str) -> dict[str, Any]:
    properties = {
        "id": {"type": "keyword"},
        "text": {"type": "text", "analyzer": analyzer},
        "sentiment": {"type": "keyword"},
        "compound": {"type": "double"},
        "human_score": {"type": "double"},
        "posted_at_ms": {"type": "date", "format": "epoch_millis"},
    }
    shards = {"number_of_shards": 1, "number_of_replicas": 0}
    return {"settings": shards, "mappings": {"properties": properties}}


class _Refused(StoreError):
    """An error as an answer; `kind` is Elasticsearch's own name for it."""

    def __init__(self, base: str, response: requests.Response) -> None:
        try:
            error = response.json().get("error", {})
        except (ValueError, AttributeError):
            error = {}
        self.kind = str(error.get("type", "")) if isinstance(error, dict) else ""
        reason = error.get("reason", error) if isinstance(error, dict) else error
        super().__init__(
            f"Elasticsearch at {base} answered {response.status_code}: {reason or response.text[:200]}"
        )
