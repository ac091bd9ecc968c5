"""The search index on Elasticsearch's HTTP API: versions 6.8, 7 and 8, and OpenSearch.

A batch is one `_bulk` request for every thousand documents, with explicit ids, so that repeating it replaces
the same documents.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from ottla.pipeline.stores import Document, StoreError
from ottla.pipeline.stores.elasticsearch_http import BUSY_DELAYS_SECONDS, ElasticsearchHttp, Refused

BULK_DOCUMENTS = 1000
PAGE_DOCUMENTS = 1000

# `english` finds "running" for "run"; a server without its analysis module has only `standard`.
_ANALYZERS = ("english", "standard")


class ElasticsearchIndex:
    """A `SearchIndex` at an Elasticsearch URL, `http://[user:password@]host:port`."""

    name = "elasticsearch"

    def __init__(self, url: str, index: str = "tweets") -> None:
        self._http = ElasticsearchHttp(url)
        self._index = quote(index, safe="")
        self._create()

    @property
    def identity(self) -> str:
        settings = self._http.request("GET", f"/{self._index}/_settings")
        return str(next(iter(settings.values()))["settings"]["index"]["uuid"])

    def write_batch(self, documents: Sequence[Document]) -> None:
        path = f"/{self._index}/_doc/_bulk" if self._http.typed else f"/{self._index}/_bulk"
        for start in range(0, len(documents), BULK_DOCUMENTS):
            self._bulk(path, documents[start : start + BULK_DOCUMENTS])

    def count(self) -> int:
        self._http.request("POST", f"/{self._index}/_refresh")
        return int(self._http.request("GET", f"/{self._index}/_count")["count"])

    def ids(self) -> Iterator[str]:
        self._http.request("POST", f"/{self._index}/_refresh")
        body: dict[str, Any] = {"size": PAGE_DOCUMENTS, "_source": False, "sort": [{"id": "asc"}]}
        while hits := self._search(body):
            yield from (str(hit["_id"]) for hit in hits)
            body["search_after"] = hits[-1]["sort"]

    def search(self, text: str, limit: int = 10) -> list[str]:
        self._http.request("POST", f"/{self._index}/_refresh")
        body = {"size": limit, "_source": False, "query": {"match": {"text": text}}}
        return [str(hit["_id"]) for hit in self._search(body)]

    def close(self) -> None:
        self._http.close()

    def _search(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        found = self._http.request("POST", f"/{self._index}/_search", json.dumps(body))
        hits: list[dict[str, Any]] = found["hits"]["hits"]
        return hits

    def _create(self) -> None:
        path = f"/{self._index}" + ("?include_type_name=false" if self._http.typed else "")
        for analyzer in _ANALYZERS:
            try:
                self._http.request("PUT", path, json.dumps(_index_settings(analyzer)))
                return
            except Refused as refused:
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
            answer = self._http.request("POST", path, "\n".join(lines) + "\n")
            if not answer.get("errors"):
                return
            results = [item["index"] for item in answer["items"]]
            failed = [result for result in results if result["status"] >= 300]
            refused = next((result for result in failed if result["status"] != 429), None)
            if refused is not None or delay_seconds is None:
                reason = (refused or failed[0]).get("error", {})
                raise StoreError(f"{self._http.base} did not take a document: {reason.get('reason', reason)}")
            busy = {result["_id"] for result in failed}
            pending = [document for document in pending if document.id in busy]
            time.sleep(delay_seconds)


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
