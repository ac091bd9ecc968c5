"""The Schema Registry's client on an event loop, by httpx. Schemas are parsed in threads."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import httpx

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
from ottla.tracing.trace_context import request_headers

T = TypeVar("T")

LOOKUPS_AT_ONCE: Final = 8


class RegistryClient:
    """Asks one registry, on one event loop. All methods raise RegistryRefusal and RegistryUnreachable."""

    def __init__(
        self,
        access: RegistryAccess,
        transport: httpx.AsyncBaseTransport | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.access = access
        self._lookups = Lookups(access, clock=clock)
        headers = {"accept": MEDIA_TYPE}
        if access.authorization is not None:
            headers["authorization"] = access.authorization
        self._client = httpx.AsyncClient(
            transport=transport,
            timeout=access.timeout_seconds,
            headers=headers,
            follow_redirects=False,
            verify=_verification(access),
        )
        self._turns = asyncio.Semaphore(LOOKUPS_AT_ONCE)
        self._under_way: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    async def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id."""
        return await self._told(self._lookups.by_id(schema_id))

    async def latest(self, subject: str) -> RegisteredSchema:
        """The newest version; kept for a few seconds only."""
        return await self._told(self._lookups.latest(subject))

    async def version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a subject."""
        return await self._told(self._lookups.version(subject, version))

    async def register(self, subject: str, schema_type: SchemaType, text: str) -> RegisteredSchema:
        """Register a schema, or find it registered."""
        return await self._told(self._lookups.register(subject, schema_type, text))

    async def version_under(self, schema: RegisteredSchema, subject: str) -> int | None:
        """The version of `subject` that has this schema, None when none has."""
        return (await self._told(self._lookups.version_under(schema, subject))).version

    async def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer to any request; nothing of it is kept."""
        return await self._answered(Asking(self._lookups.ask(method, path, body)))

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _told(self, question: Question) -> RegisteredSchema:
        """The answer: at once where it is kept, else in the question's turn.

        A task with the same question waits until it finds the answer kept.
        """
        asking = Asking(self._lookups.steps(question))
        if asking.step is None:
            return asking.answer
        asking.close()
        async with self._under_way.setdefault(question.key, asyncio.Lock()), self._turns:
            return await self._answered(Asking(self._lookups.steps(question)))

    async def _answered(self, asking: Asking[T]) -> T:
        while asking.step is not None:
            try:
                result = await self._done(asking.step)
            except (Unanswered, InvalidSchema) as problem:
                asking.fail(problem)
            else:
                asking.go_on(result)
        return asking.answer

    async def _done(self, step: Step) -> tuple[int, bytes] | ParsedSchema | None:
        match step:
            case Send():
                return await self._sent(step)
            case Parse(schema_type, text, references):
                # parsing may take tens of milliseconds, Protobuf above all
                return await asyncio.to_thread(format_of(schema_type).parse, text, references)
            case Wait(seconds):
                await asyncio.sleep(seconds)
                return None

    async def _sent(self, step: Send) -> tuple[int, bytes]:
        content = None if step.body is None else json.dumps(step.body).encode()
        headers = request_headers()
        if step.body is not None:
            headers["content-type"] = MEDIA_TYPE
        data = bytearray()
        try:
            async with self._client.stream(
                step.method, step.url + step.path, content=content, headers=headers
            ) as answer:
                async for part in answer.aiter_bytes():
                    data += part
                    if len(data) > MAX_ANSWER_BYTES:
                        raise Unanswered(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
        except (httpx.HTTPError, httpx.InvalidURL) as failure:
            raise Unanswered(str(failure) or type(failure).__name__) from None
        return answer.status_code, bytes(data)


def _verification(access: RegistryAccess) -> ssl.SSLContext | bool:
    if access.ca_location is None and access.certificate_location is None:
        return True
    context = ssl.create_default_context(cafile=access.ca_location)
    if access.certificate_location is not None:
        context.load_cert_chain(access.certificate_location, access.key_location)
    return context
