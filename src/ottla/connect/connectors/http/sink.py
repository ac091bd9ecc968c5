"""Records posted to a URL, one or several a request. At least once: a lost answer makes a request twice."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import httpx

import ottla
from ottla.config.setting import Table
from ottla.config.settings import Settings
from ottla.connect.connectors.answered_records import AnsweredRecords, place_of
from ottla.connect.connectors.http import settings as options
from ottla.connect.connectors.http.settings import Authorization, ClientMode
from ottla.connect.connectors.plain import key_text
from ottla.connect.data.record import SinkRecord, TopicPartition
from ottla.connect.data.schema import DataError
from ottla.connect.plugins.api import RetriableError
from ottla.connect.plugins.required import require

_FOR_THE_MOMENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_UNAUTHORIZED: Final = 401
SHOWN_CHARACTERS: Final = 200


class Refused(Exception):
    """The server has refused a request for good."""


class HttpSink:
    """A request that is refused refuses all its records; one that fails for the moment is sent again."""

    TABLE: ClassVar[Table] = options.TABLE
    VERSION: ClassVar[str] = ottla.__version__

    def __init__(self, settings: Settings, sleep: Callable[[float], None] = time.sleep) -> None:
        self._settings = settings
        self._sleep = sleep
        self._url = require(settings, options.HTTP_URL)
        self._kind = settings[options.AUTHORIZATION_TYPE]
        self._headers = _headers(settings, self._kind)
        if self._kind is Authorization.OAUTH2:
            for name, value in (
                (options.OAUTH2_TOKEN_URL.name, settings[options.OAUTH2_TOKEN_URL]),
                (options.OAUTH2_CLIENT_ID.name, settings[options.OAUTH2_CLIENT_ID]),
                (options.OAUTH2_CLIENT_SECRET.name, settings[options.OAUTH2_CLIENT_SECRET]),
            ):
                if value is None:
                    raise settings.refusal(name, "must be given with http.authorization.type=oauth2")
        self._separator = _text(settings[options.BATCH_SEPARATOR]) or "\n"
        self._client: httpx.Client | None = None
        self._token: str | None = None
        self._answered = AnsweredRecords()

    def open(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        self._answered.clear()
        return {}

    def write(self, records: Sequence[SinkRecord]) -> None:
        most = self._settings[options.BATCH_MAX_SIZE] if self._settings[options.BATCHING_ENABLED] else 1
        group: list[tuple[SinkRecord, str]] = []
        for each in records:
            if place_of(each) in self._answered:
                continue
            try:
                group.append((each, _body(each)))
            except DataError as problem:
                self._answered.keep(place_of(each), str(problem))
            if len(group) >= most:
                self._send(group)
                group = []
        if group:
            self._send(group)
        self._answered.end_batch(records)

    def flush(self) -> None:
        """A request is the server's when it is answered."""

    def lose(self, partitions: Sequence[TopicPartition]) -> None:
        self._answered.clear()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _send(self, group: Sequence[tuple[SinkRecord, str]]) -> None:
        """Send some records in one request, and keep what became of them."""
        bodies = [body for _, body in group]
        if self._settings[options.BATCHING_ENABLED]:
            prefix, suffix = self._settings[options.BATCH_PREFIX], self._settings[options.BATCH_SUFFIX]
            text = _text(prefix) + self._separator.join(bodies) + _text(suffix)
        else:
            (text,) = bodies
        reason = None
        try:
            self._post(text.encode())
        except Refused as refused:
            reason = str(refused)
        for each, _ in group:
            self._answered.keep(place_of(each), reason)

    def _post(self, body: bytes) -> None:
        """Post a request until it is taken. Raises Refused, RetriableError."""
        problem = ""
        renewed = False
        retries = self._settings[options.MAX_RETRIES]
        while True:
            try:
                answer = self._get_client().post(self._url, content=body, headers=self._authorization())
            except httpx.TransportError as error:
                problem = str(error) or type(error).__name__
            else:
                if answer.is_success:
                    return
                problem = f"{answer.status_code} {answer.text[:SHOWN_CHARACTERS]}".strip()
                if answer.status_code == _UNAUTHORIZED and self._token is not None and not renewed:
                    self._token, renewed = None, True  # it has expired: the first 401 costs no retry
                    continue
                if answer.status_code not in _FOR_THE_MOMENT:
                    raise Refused(f"{self._shown()} answered {problem}")
            if retries == 0:
                raise RetriableError(f"{self._shown()}: {problem}")
            retries -= 1
            self._sleep(self._settings[options.RETRY_BACKOFF_MS] / 1000)

    def _authorization(self) -> dict[str, str]:
        if self._kind is not Authorization.OAUTH2:
            return {}
        if self._token is None:
            self._token = self._ask_for_token()
        return {"Authorization": f"Bearer {self._token}"}

    def _ask_for_token(self) -> str:
        """A new token. Raises RetriableError, and ValueError where none is given."""
        settings = self._settings
        url, id = require(settings, options.OAUTH2_TOKEN_URL), require(settings, options.OAUTH2_CLIENT_ID)
        secret = require(settings, options.OAUTH2_CLIENT_SECRET).value
        form = {settings[options.OAUTH2_GRANT_TYPE_KEY]: settings[options.OAUTH2_GRANT_TYPE]}
        scope = settings[options.OAUTH2_CLIENT_SCOPE]
        if scope is not None:
            form["scope"] = scope
        by_header = settings[options.OAUTH2_CLIENT_MODE] is ClientMode.HEADER
        if not by_header:
            form[settings[options.OAUTH2_ID_PROPERTY]] = id
            form[settings[options.OAUTH2_SECRET_PROPERTY]] = secret
        credentials = httpx.BasicAuth(id, secret) if by_header else httpx.Auth()
        try:
            answer = self._get_client().post(url, data=form, auth=credentials)
        except httpx.TransportError as error:
            raise RetriableError(f"no token from {url}: {str(error) or type(error).__name__}") from error
        if answer.status_code in _FOR_THE_MOMENT:
            raise RetriableError(f"no token from {url}: {answer.status_code}")
        try:
            token = answer.raise_for_status().json()[settings[options.OAUTH2_RESPONSE_TOKEN]]
        except (httpx.HTTPStatusError, ValueError, KeyError, TypeError):
            raise ValueError(f"{url} gave no token: {answer.status_code}") from None
        return str(token)

    def _get_client(self) -> httpx.Client:
        if self._client is None:
            self._client = httpx.Client(headers=self._headers, timeout=self._settings[options.HTTP_TIMEOUT])
        return self._client

    def _shown(self) -> str:
        """The URL without a password and without parameters, which may be secrets."""
        parts = httpx.URL(self._url)
        return str(parts.copy_with(username=None, password=None, query=None))


def _headers(settings: Settings, kind: Authorization) -> dict[str, str]:
    headers = {"User-Agent": f"ottla/{ottla.__version__}"}
    content_type = settings[options.HEADERS_CONTENT_TYPE]
    if content_type is not None:
        headers["Content-Type"] = content_type
    for each in settings[options.HEADERS_ADDITIONAL]:
        name, _, value = each.partition(":")
        headers[name.strip()] = value.strip()
    secret = settings[options.HEADERS_AUTHORIZATION]
    if kind in (Authorization.STATIC, Authorization.APIKEY):
        if secret is None:
            raise settings.refusal(
                options.HEADERS_AUTHORIZATION.name, f"must be given with http.authorization.type={kind}"
            )
        headers["Authorization"] = secret.value
    elif secret is not None:
        raise settings.refusal(
            options.HEADERS_AUTHORIZATION.name, f"is of no use with http.authorization.type={kind}"
        )
    return headers


def _body(each: SinkRecord) -> str:
    """A record's text: a text as it is, other values in JSON. Raises DataError."""
    value: Any = each.record.value
    if value is None:
        raise DataError("a record without a value makes no request")
    return key_text(value)


def _text(given: str) -> str:
    return given.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t")
