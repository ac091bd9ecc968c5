"""The proxy's client of a Schema Registry: schemas by id and by subject, parsed once and kept.

What never changes (the schema of an id, a version, what was registered) is kept, bounded in number and in
size of text; the latest version is kept for a few seconds. Instances are tried in turn, the one that answered
last first.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

import httpx
import orjson

from ottla.schemas.format import InvalidSchema, ParsedSchema
from ottla.schemas.formats import format_of
from ottla.schemas.model import SchemaType

MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"
KEPT_SCHEMAS: Final = 1_000
KEPT_TEXT_CHARACTERS: Final = 32 << 20
LATEST_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 10.0
ANSWER_BYTES: Final = 16 << 20
MAX_REFERENCES: Final = 200
"""Schemas that one schema may refer to, directly or not."""
LOOKUPS_AT_ONCE: Final = 8


class RegistryRefusal(Exception):
    """The registry said no; `status`, `error_code` and `message` as it told them."""

    def __init__(self, status: int, error_code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message


class RegistryUnreachable(Exception):
    """No instance of the registry answers."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its id. `subject` and `version` where it was asked for by them."""

    id: int
    parsed: ParsedSchema
    subject: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class _Kept:
    found: RegisteredSchema
    characters: int
    until: float | None = None


_Key = tuple[str | int | bytes, ...]


class SchemaRegistry:
    """All methods raise RegistryRefusal and RegistryUnreachable. What never changes is kept, bounded."""

    def __init__(self, urls: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """`urls`: of one or more instances, by commas, with user:password@ where they ask for it."""
        self._urls = [url.strip().rstrip("/") for url in urls.split(",")]
        self._client = httpx.AsyncClient(
            transport=transport,
            timeout=ANSWER_SECONDS,
            headers={"accept": MEDIA_TYPE},
            follow_redirects=False,
        )
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._characters = 0
        self._lookups = asyncio.Semaphore(LOOKUPS_AT_ONCE)

    async def by_id(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id."""
        key = ("id", schema_id)
        found = self._recall(key)
        if found is None:
            async with self._lookups:
                found = self._recall(key) or await self._look_up_id(key, schema_id)
        return found

    async def latest(self, subject: str) -> RegisteredSchema:
        """The newest version; kept for a few seconds only."""
        return await self._of_subject(subject, "latest")

    async def version(self, subject: str, version: int) -> RegisteredSchema:
        """One version of a subject."""
        return await self._of_subject(subject, str(version))

    async def register(self, subject: str, schema_type: SchemaType, text: str) -> RegisteredSchema:
        """Register a schema, or find it registered."""
        key = ("text", subject, schema_type.value, hashlib.sha256(text.encode(errors="replace")).digest())
        found = self._recall(key)
        if found is None:
            async with self._lookups:
                found = self._recall(key) or await self._register(key, subject, schema_type, text)
        return found

    async def version_under(self, schema: RegisteredSchema, subject: str) -> int | None:
        """The version of `subject` that has this schema, None when none has."""
        key = ("place", schema.id, subject)
        found = self._recall(key)
        if found is None:
            async with self._lookups:
                found = self._recall(key) or await self._look_up_place(key, schema, subject)
        return found.version

    async def close(self) -> None:
        """Hang up."""
        await self._client.aclose()

    async def _look_up_id(self, key: _Key, schema_id: int) -> RegisteredSchema:
        answer = await self._ask("GET", f"/schemas/ids/{schema_id}")
        found = RegisteredSchema(schema_id, await self._parse(answer))
        self._keep(key, found)
        return found

    async def _look_up_place(self, key: _Key, schema: RegisteredSchema, subject: str) -> RegisteredSchema:
        places = (await self._ask("GET", f"/schemas/ids/{schema.id}/versions")).get("list", [])
        versions = [
            place["version"]
            for place in places
            if isinstance(place, dict)
            and place.get("subject") == subject
            and type(place.get("version")) is int
        ]
        found = replace(schema, subject=subject, version=max(versions, default=None))
        self._keep(key, found, None if versions else time.monotonic() + LATEST_SECONDS)
        return found

    async def _of_subject(self, subject: str, version: str) -> RegisteredSchema:
        key = ("version", subject, version)
        found = self._recall(key)
        if found is None:
            async with self._lookups:
                found = self._recall(key) or await self._look_up_version(key, subject, version)
        return found

    async def _look_up_version(self, key: _Key, subject: str, version: str) -> RegisteredSchema:
        answer = await self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/{version}")
        schema_id = _whole(answer, "id")
        known = self._recall(("id", schema_id))
        parsed = known.parsed if known is not None else await self._parse(answer)
        found = RegisteredSchema(schema_id, parsed, subject, _whole(answer, "version"))
        self._keep(key, found, time.monotonic() + LATEST_SECONDS if version == "latest" else None)
        self._keep(("id", schema_id), RegisteredSchema(schema_id, parsed))
        return found

    async def _register(
        self, key: _Key, subject: str, schema_type: SchemaType, text: str
    ) -> RegisteredSchema:
        body = {"schema": text, "schemaType": schema_type.value}
        path = f"/subjects/{quote(subject, safe='')}"
        schema_id = _whole(await self._ask("POST", f"{path}/versions", body), "id")
        # asked for, as the answer to a registration has no version before 8.0
        answer = await self._ask("POST", path, body)
        parsed = await self._parse(answer)
        found = RegisteredSchema(schema_id, parsed, subject, _whole(answer, "version"))
        self._keep(key, found)
        self._keep(("id", schema_id), replace(found, subject=None, version=None))
        return found

    async def _parse(self, answer: Mapping[str, Any]) -> ParsedSchema:
        """The schema of an answer, with all that it refers to."""
        texts: dict[str, str] = {}
        try:
            await self._collect(answer, texts, ())
        except (KeyError, TypeError):
            raise RegistryUnreachable("the registry's answer has references of another shape") from None
        text, name = answer.get("schema"), answer.get("schemaType") or SchemaType.AVRO
        try:
            schema_type = SchemaType(name)
        except ValueError:
            raise RegistryRefusal(422, 42201, f"The schema is of an unknown type: {name}") from None
        if not isinstance(text, str):
            raise RegistryUnreachable("the registry's answer holds no schema")
        try:
            # may take tens of milliseconds, that of Protobuf above all
            return await asyncio.to_thread(format_of(schema_type).parse, text, texts)
        except InvalidSchema as problem:
            raise RegistryRefusal(422, 42201, f"The registry's schema can't be read: {problem}") from None

    async def _collect(self, answer: Mapping[str, Any], texts: dict[str, str], path: tuple[str, ...]) -> None:
        """Put the texts that this schema refers to into `texts`, those first that others need.

        `path`: the names that led here. One that leads back to itself is left for the parser to miss.
        """
        for reference in answer.get("references") or []:
            name, subject, version = (str(reference[part]) for part in ("name", "subject", "version"))
            if name in texts or name in path:
                continue
            if len(texts) + len(path) >= MAX_REFERENCES:
                raise RegistryRefusal(422, 42201, f"The schema refers to more than {MAX_REFERENCES} others")
            asked = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
            found = await self._ask("GET", asked)
            await self._collect(found, texts, (*path, name))
            texts[name] = str(found.get("schema"))

    async def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """The answer of the first instance that gives one; a 5xx of one may be another's 200."""
        refusal: RegistryRefusal | None = None
        problem = "no instance is known"
        for url in list(self._urls):
            try:
                answer = await self._send(method, url + path, body)
            except httpx.HTTPError as failure:
                problem = f"{url} does not answer: {str(failure) or type(failure).__name__}"
                continue
            except httpx.InvalidURL as failure:
                problem = f"{url}: {failure}"
                continue
            if isinstance(answer, dict):
                self._urls.remove(url)
                self._urls.insert(0, url)
                return answer
            if answer.status < 500:
                raise answer
            refusal = answer
        raise refusal or RegistryUnreachable(problem)

    async def _send(self, method: str, url: str, body: Any) -> dict[str, Any] | RegistryRefusal:
        content = None if body is None else orjson.dumps(body)
        headers = {} if body is None else {"content-type": MEDIA_TYPE}
        data = bytearray()
        async with self._client.stream(method, url, content=content, headers=headers) as answer:
            async for part in answer.aiter_bytes():
                data += part
                if len(data) > ANSWER_BYTES:
                    raise httpx.DecodingError(f"an answer of more than {ANSWER_BYTES} bytes")
        try:
            said = orjson.loads(data)
        except orjson.JSONDecodeError:
            said = None
        if isinstance(said, list):
            said = {"list": said}
        if not isinstance(said, dict):
            said = {}
        if answer.status_code == 200:
            return said
        code, message = said.get("error_code"), said.get("message")
        return RegistryRefusal(
            answer.status_code,
            code if isinstance(code, int) else answer.status_code,
            message if isinstance(message, str) else f"HTTP {answer.status_code}",
        )

    def _recall(self, key: _Key) -> RegisteredSchema | None:
        kept = self._kept.get(key)
        if kept is None:
            return None
        if kept.until is not None and kept.until < time.monotonic():
            self._forget(key)
            return None
        self._kept.move_to_end(key)
        return kept.found

    def _keep(self, key: _Key, found: RegisteredSchema, until: float | None = None) -> None:
        self._forget(key)
        characters = len(found.parsed.canonical_text)
        self._kept[key] = _Kept(found, characters, until)
        self._characters += characters
        while len(self._kept) > KEPT_SCHEMAS or (
            self._characters > KEPT_TEXT_CHARACTERS and len(self._kept) > 1
        ):
            self._forget(next(iter(self._kept)))

    def _forget(self, key: _Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._characters -= kept.characters


def _whole(answer: Mapping[str, Any], name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int):
        raise RegistryUnreachable(f"the registry's answer has no {name}")
    return value
