"""The Schema Registry's client for threads, by `requests`; its calls block."""

from __future__ import annotations

import threading
import time
from typing import Final
from weakref import WeakValueDictionary

import requests

from ottla.client.registry.lookups import (
    Asking,
    Key,
    Lookups,
    Parse,
    Question,
    RegisteredSchema,
    Send,
    Step,
    Unanswered,
    Wait,
)
from ottla.client.registry.wire import MAX_ANSWER_BYTES, MEDIA_TYPE, RegistryAccess
from ottla.schemas.format import InvalidSchema, ParsedSchema
from ottla.schemas.formats import format_of
from ottla.schemas.model import SchemaType

UNKNOWN_KEPT_SECONDS: Final = 10.0
_PART_BYTES: Final = 64 << 10


class RegistryClient:
    """Asks one registry. For many threads. All methods raise RegistryRefusal and RegistryUnreachable."""

    def __init__(self, access: RegistryAccess) -> None:
        self._access = access
        self._lookups = Lookups(access, UNKNOWN_KEPT_SECONDS)
        self._session = requests.Session()
        self._session.headers["Accept"] = MEDIA_TYPE
        authorization = access.authorization
        if authorization is not None:
            self._session.auth = _Authorization(authorization)
        if access.ca_location is not None:
            self._session.verify = access.ca_location
        if access.certificate_location is not None:
            key = access.key_location
            certificate = access.certificate_location
            self._session.cert = (certificate, key) if key is not None else certificate
        self._under_way: WeakValueDictionary[Key, _Turn] = WeakValueDictionary()
        self._lock = threading.Lock()

    def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id."""
        return self._told(self._lookups.by_id(schema_id))

    def latest(self, subject: str) -> RegisteredSchema:
        """The newest version; kept for a few seconds only."""
        return self._told(self._lookups.latest(subject))

    def register(self, subject: str, schema_type: SchemaType, text: str) -> RegisteredSchema:
        """Register a schema, or find it registered."""
        return self._told(self._lookups.register(subject, schema_type, text))

    def registered(self, subject: str, schema_type: SchemaType, text: str) -> RegisteredSchema:
        """The schema of a text that is registered under a subject."""
        return self._told(self._lookups.registered(subject, schema_type, text))

    def _told(self, question: Question) -> RegisteredSchema:
        """The answer. A thread with the same question waits until it finds the answer kept."""
        with self._lock:
            turn = self._under_way.setdefault(question.key, _Turn())
        with turn.lock:
            asking = Asking(self._lookups.steps(question))
            while asking.step is not None:
                try:
                    result = self._done(asking.step)
                except (Unanswered, InvalidSchema) as problem:
                    asking.fail(problem)
                else:
                    asking.go_on(result)
            return asking.answer

    def _done(self, step: Step) -> tuple[int, bytes] | ParsedSchema | None:
        match step:
            case Send():
                return self._sent(step)
            case Parse(schema_type, text, references):
                return format_of(schema_type).parse(text, references)
            case Wait(seconds):
                time.sleep(seconds)
                return None

    def _sent(self, step: Send) -> tuple[int, bytes]:
        try:
            with self._session.request(
                step.method,
                step.url + step.path,
                json=step.body,
                timeout=self._access.timeout_seconds,
                stream=True,
            ) as answer:
                data = bytearray()
                for part in answer.iter_content(_PART_BYTES):
                    data += part
                    if len(data) > MAX_ANSWER_BYTES:
                        raise Unanswered(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
                return answer.status_code, bytes(data)
        except requests.exceptions.SSLError as problem:
            raise Unanswered(f"no TLS: {problem}", is_final=True) from None
        except requests.RequestException as problem:
            raise Unanswered(type(problem).__name__) from None


class _Turn:
    """A lock, held by the thread that asks; unlike `threading.Lock`, weak references to it can be made."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class _Authorization(requests.auth.AuthBase):
    """Adds the header Authorization. An `auth`, as requests would replace a header by one of ~/.netrc."""

    def __init__(self, authorization: str) -> None:
        self._authorization = authorization

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._authorization
        return request
