"""Requests to Elasticsearch 6.8, 7 and 8, and to OpenSearch, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import requests

from ottla.pipeline.stores import StoreError

TIMEOUT_SECONDS = (10.0, 60.0)
BUSY_DELAYS_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)


class NoAnswer(StoreError):
    """The server can't be reached, or does not answer in time."""


class Refused(StoreError):
    """An error as an answer; `kind` is Elasticsearch's own name for it."""

    def __init__(self, base: str, response: requests.Response) -> None:
        try:
            error = response.json().get("error", {})
        except (ValueError, AttributeError):
            error = {}
        self.status = response.status_code
        self.kind = str(error.get("type", "")) if isinstance(error, dict) else ""
        reason = error.get("reason", error) if isinstance(error, dict) else error
        super().__init__(
            f"Elasticsearch at {base} answered {response.status_code}: {reason or response.text[:200]}"
        )


class ElasticsearchHttp:
    """A server at a URL, `http://[user:password@]host:port`. Raises StoreError where it is none.

    typed: version 6, which requires a type in paths (`_doc`) and a parameter for mappings without types;
    later versions refuse both.
    """

    def __init__(
        self,
        url: str,
        credentials: tuple[str, str] | None = None,
        timeout_seconds: tuple[float, float] = TIMEOUT_SECONDS,
        busy_delays_seconds: Sequence[float] = BUSY_DELAYS_SECONDS,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise StoreError("an Elasticsearch URL looks like http://host:9200")
        host = parts.netloc.rpartition("@")[2]
        self.base = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
        self._timeout_seconds = timeout_seconds
        self._busy_delays_seconds = busy_delays_seconds
        self._session = requests.Session()
        if parts.username is not None:
            self._session.auth = (parts.username, parts.password or "")
        if credentials is not None:
            self._session.auth = credentials
        about = self.request("GET", "/")
        version = about.get("version", {}) if isinstance(about, dict) else {}
        distribution = str(version.get("distribution", "elasticsearch"))
        major = str(version.get("number", "")).partition(".")[0]
        if not major.isdigit() or (distribution == "elasticsearch" and int(major) < 6):
            raise StoreError(f"{self.base} is not Elasticsearch 6.8 or later, nor OpenSearch")
        self.typed = distribution == "elasticsearch" and int(major) == 6

    def request(self, method: str, path: str, body: str | None = None) -> Any:
        """The answer in JSON; a busy server is asked again. Raises NoAnswer, Refused, StoreError."""
        content = "application/x-ndjson" if path.endswith("_bulk") else "application/json"
        for delay_seconds in (*self._busy_delays_seconds, None):
            try:
                response = self._session.request(
                    method,
                    self.base + path,
                    data=body.encode() if body is not None else None,
                    headers={"Content-Type": content} if body is not None else {},
                    timeout=self._timeout_seconds,
                )
            except requests.RequestException as error:
                raise NoAnswer(f"no answer from Elasticsearch at {self.base}: {error}") from error
            if response.status_code in (429, 503) and delay_seconds is not None:
                time.sleep(delay_seconds)
                continue
            if response.status_code >= 300:
                raise Refused(self.base, response)
            try:
                return response.json()
            except ValueError as error:
                raise StoreError(f"{self.base} does not answer as Elasticsearch does") from error
        raise AssertionError("the last turn of the loop returns or raises")

    def close(self) -> None:
        """Close the connections."""
        self._session.close()
