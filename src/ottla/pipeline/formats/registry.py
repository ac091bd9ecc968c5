"""The Schema Registry as formats use it: schemas by id in the workers, subjects at the start on the driver.

What never changes (the schema of an id) is kept in each Python worker, bounded, and shared by its threads.
That an id is unknown is kept for seconds only. A schema that does not exist is a fault of the record that
names it (`UnknownSchema`); a registry that does not answer, or refuses us, is nobody's record's fault
(`RegistryError`): asked a bounded number of times, then the batch fails, and its query with it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

import requests

from ottla.pipeline.formats.format import FormatError, in_one_line
from ottla.schemas.format import InvalidSchema, ParsedSchema
from ottla.schemas.formats import format_of
from ottla.schemas.model import SchemaType

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
KEPT_SCHEMAS: Final = 1_000
UNKNOWN_KEPT_SECONDS: Final = 10.0
MAX_REFERENCES: Final = 200
_RETRIED_STATUS: Final = frozenset((408, 429, 500, 502, 503, 504))
_PROPERTIES: Final = {
    "schema.registry.url": "url",
    "url": "url",
    "basic.auth.user.info": "user_info",
    "schema.registry.basic.auth.user.info": "user_info",
    "bearer.auth.token": "bearer_token",
    "ssl.ca.location": "ca_location",
    "ssl.certificate.location": "certificate_location",
    "ssl.key.location": "key_location",
}

Found = TypeVar("Found")


class RegistryError(FormatError):
    """The registry does not answer, or not as asked; one line. Never a reason for a dead letter."""


class UnknownSchema(Exception):
    """There is no such id, subject or version."""


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """Where the registry is and who we are there. Several instances by commas are tried in turn.

    user_info: `user:password`. attempts: how often each is asked before a batch fails.
    """

    url: str
    user_info: str | None = field(default=None, repr=False)
    bearer_token: str | None = field(default=None, repr=False)
    ca_location: str | None = None
    certificate_location: str | None = None
    key_location: str | None = field(default=None, repr=False)
    timeout_seconds: float = 10.0
    attempts: int = 5

    def __post_init__(self) -> None:
        for url in self.urls:
            if not url.startswith(("http://", "https://")):
                raise FormatError(
                    f"the registry's address {_shown(url)!r} must begin with http:// or https://"
                )

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> SchemaRegistry:
        """From `schema.registry.url` and the security properties of Confluent's clients."""
        known: dict[str, str] = {}
        for name, value in properties.items():
            if name not in _PROPERTIES:
                raise FormatError(f"no property of a registry: {name} (known: {', '.join(_PROPERTIES)})")
            known[_PROPERTIES[name]] = value
        if "url" not in known:
            raise FormatError("schema.registry.url is missing")
        return cls(
            known["url"],
            known.get("user_info"),
            known.get("bearer_token"),
            known.get("ca_location"),
            known.get("certificate_location"),
            known.get("key_location"),
        )

    @property
    def urls(self) -> list[str]:
        return [url.strip().rstrip("/") for url in self.url.split(",")]

    @property
    def shown(self) -> str:
        """The addresses without the passwords in them."""
        return ",".join(map(_shown, self.urls))


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its id; subject and version where it was asked for by them."""

    id: int
    text: str
    parsed: ParsedSchema
    subject: str | None = None
    version: int | None = None


class RegistryClient:
    """Asks one registry. For many threads. Raises RegistryError and UnknownSchema."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self._registry = registry
        self._schemas: Kept[RegisteredSchema] = Kept(KEPT_SCHEMAS)
        self._session = requests.Session()
        self._session.headers["Accept"] = MEDIA_TYPE
        if registry.user_info is not None:
            user, _, password = registry.user_info.partition(":")
            self._session.auth = (user, password)
        if registry.bearer_token is not None:
            self._session.headers["Authorization"] = f"Bearer {registry.bearer_token}"
        if registry.ca_location is not None:
            self._session.verify = registry.ca_location
        if registry.certificate_location is not None:
            key = registry.key_location
            certificate = registry.certificate_location
            self._session.cert = (certificate, key) if key is not None else certificate

    def by_id(self, schema_id: int, schema_type: SchemaType) -> RegisteredSchema:
        """The schema of an id. UnknownSchema where there is none, or one of another format."""
        found = self._schemas.get(schema_id, lambda: self._by_id(schema_id))
        if found.parsed.schema_type is not schema_type:
            raise UnknownSchema(
                f"schema {schema_id} is of the type {found.parsed.schema_type}, not {schema_type}"
            )
        return found

    def latest(self, subject: str, schema_type: SchemaType) -> RegisteredSchema:
        """A subject's newest version."""
        answer = self._ask("GET", f"/subjects/{_quoted(subject)}/versions/latest")
        found = self._registered(answer, f"the latest version of {subject}")
        if found.parsed.schema_type is not schema_type:
            raise RegistryError(
                f"subject {subject} has a schema of the type {found.parsed.schema_type}, not {schema_type}"
            )
        return found

    def registered(
        self, subject: str, schema_type: SchemaType, text: str, *, register: bool
    ) -> RegisteredSchema:
        """A text's schema under a subject: looked up, or registered where it is not and `register` is set."""
        body = {"schema": text, "schemaType": schema_type.value}
        if register:
            answer = self._ask("POST", f"/subjects/{_quoted(subject)}/versions", body)
            version = None
        else:
            answer = self._ask("POST", f"/subjects/{_quoted(subject)}", body)
            version = answer.get("version")
        schema_id = answer.get("id")
        if not isinstance(schema_id, int):
            raise RegistryError(f"the registry at {self._registry.shown} gave no id for {subject}")
        parsed = self._parsed(schema_type, text, {}, subject)
        return RegisteredSchema(schema_id, text, parsed, subject, version)

    def _by_id(self, schema_id: int) -> RegisteredSchema:
        answer = self._ask("GET", f"/schemas/ids/{schema_id}")
        return self._registered({**answer, "id": schema_id}, f"schema {schema_id}")

    def _registered(self, answer: Mapping[str, Any], what: str) -> RegisteredSchema:
        text, schema_id = answer.get("schema"), answer.get("id")
        if not isinstance(text, str) or not isinstance(schema_id, int):
            raise RegistryError(f"the registry at {self._registry.shown} told no schema for {what}")
        try:
            schema_type = SchemaType(answer.get("schemaType") or "AVRO")
        except ValueError:
            raise UnknownSchema(f"{what} is of an unknown type, {answer.get('schemaType')}") from None
        references: dict[str, str] = {}
        self._collect(answer.get("references") or (), references, ())
        parsed = self._parsed(schema_type, text, references, what)
        return RegisteredSchema(schema_id, text, parsed, answer.get("subject"), answer.get("version"))

    def _collect(self, references: Any, found: dict[str, str], path: tuple[str, ...]) -> None:
        """The texts that are referred to, directly or not, by their names: those first that others need.

        `path`: the names that led here.
        """
        for reference in references:
            name = reference["name"]
            if name in path:
                raise UnknownSchema(
                    f"the reference {name} leads back to itself: {' -> '.join((*path, name))}"
                )
            if name in found:
                continue
            if len(found) + len(path) >= MAX_REFERENCES:
                raise UnknownSchema(f"the schema refers to more than {MAX_REFERENCES} others")
            asked = f"/subjects/{_quoted(reference['subject'])}/versions/{reference['version']}"
            answer = self._ask("GET", asked)
            self._collect(answer.get("references") or (), found, (*path, name))
            found[name] = answer["schema"]

    def _parsed(
        self, schema_type: SchemaType, text: str, references: Mapping[str, str], what: str
    ) -> ParsedSchema:
        try:
            return format_of(schema_type).parse(text, references)
        except InvalidSchema as problem:
            raise FormatError(f"{what} can't be read: {in_one_line(str(problem))}") from None

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        reason = "it was not asked"
        for attempt in range(self._registry.attempts):
            if attempt:
                time.sleep(min(0.2 * 2**attempt, 3.0))
            for url in self._registry.urls:
                try:
                    answer = self._session.request(
                        method, url + path, json=body, timeout=self._registry.timeout_seconds
                    )
                except requests.exceptions.SSLError as problem:
                    raise RegistryError(
                        f"no TLS with the registry at {_shown(url)}: {_line(problem)}"
                    ) from None
                except requests.RequestException as problem:
                    reason = type(problem).__name__
                    continue
                if answer.status_code in _RETRIED_STATUS:
                    reason = f"status {answer.status_code}: {_line(answer.text)}"
                    continue
                return self._judged(answer, url, path)
        raise RegistryError(
            f"the schema registry at {self._registry.shown} does not answer"
            f" ({self._registry.attempts} attempts, the last: {reason})"
        )

    def _judged(self, answer: requests.Response, url: str, path: str) -> dict[str, Any]:
        try:
            told = answer.json()
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise RegistryError(
                f"{_shown(url)} is no schema registry: status {answer.status_code} for {path}"
            )
        if answer.ok:
            return told
        message = in_one_line(str(told.get("message", "no reason")))
        if answer.status_code == 404 and isinstance(told.get("error_code"), int):
            raise UnknownSchema(message)
        raise RegistryError(
            f"the schema registry at {_shown(url)} refuses {path}: {answer.status_code} {message}"
        )


class Kept(Generic[Found]):
    """The newest `limit` things found, and for a while that there are none. For many threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._found: OrderedDict[Any, Found] = OrderedDict()
        self._unknown: OrderedDict[Any, tuple[float, UnknownSchema]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Any, find: Callable[[], Found]) -> Found:
        """What is kept, or what `find` finds now; an UnknownSchema that it raises is kept for a while too."""
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
            until, unknown = self._unknown.get(key, (0.0, None))
            if unknown is not None and time.monotonic() < until:
                raise unknown
            try:
                found = find()
            except UnknownSchema as problem:
                self._unknown[key] = (time.monotonic() + UNKNOWN_KEPT_SECONDS, problem)
                self._unknown.move_to_end(key)
                while len(self._unknown) > self._limit:
                    self._unknown.popitem(last=False)
                raise
            self._found[key] = found
            while len(self._found) > self._limit:
                self._found.popitem(last=False)
            return found


_clients: OrderedDict[SchemaRegistry, RegistryClient] = OrderedDict()
_clients_lock = threading.Lock()
_KEPT_CLIENTS: Final = 16


def client_of(registry: SchemaRegistry) -> RegistryClient:
    """This process's client of a registry."""
    with _clients_lock:
        if registry not in _clients:
            _clients[registry] = RegistryClient(registry)
            while len(_clients) > _KEPT_CLIENTS:
                _clients.popitem(last=False)
        _clients.move_to_end(registry)
        return _clients[registry]


def _quoted(part: str) -> str:
    return quote(part, safe="")


def _shown(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return scheme + separator + rest.rpartition("@")[2]


def _line(problem: object) -> str:
    return in_one_line(str(problem))[:200]
