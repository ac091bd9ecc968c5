"""A Schema Registry's client without I/O: the requests that a question takes, and how answers are read.

A question has a key, under which its answer is kept, and steps: a generator that yields `Send`, `Wait` and
`Parse`, is sent the result of each (the failure of one is thrown in), and returns the schema. `Asking` goes
through them; the clients beside this module do the steps, one in threads and one on an event loop.

Answers that never change (the schema of an id, a version, a registration) are kept, bounded in number and in
size of text; the latest version for a few seconds. Instances are tried in turn, the one that answered last
first.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeAlias, TypeVar

from ottla.client.registry.cache import Cache
from ottla.client.registry.wire import (
    RegistryAccess,
    RegistryRefusal,
    RegistryUnreachable,
    UnusableAnswer,
    judged,
    quoted,
    shown,
)
from ottla.schemas.format import InvalidSchema, ParsedSchema
from ottla.schemas.model import Metadata, RuleSet, SchemaType

T = TypeVar("T")

KEPT_SCHEMAS: Final = 1_000
KEPT_TEXT_CHARACTERS: Final = 32 << 20
LATEST_SECONDS: Final = 3.0
MAX_REFERENCES: Final = 200
"""Schemas that one schema may refer to, directly or not."""
INVALID_SCHEMA: Final = (422, 42201)
"""The status and the error code with which a registry refuses an invalid schema."""
_FIRST_WAIT_SECONDS: Final = 0.4
_LONGEST_WAIT_SECONDS: Final = 3.0


class Unanswered(Exception):
    """A request got no answer; the message says why. is_final: asking again would not help."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class UnusableSchema(RegistryRefusal):
    """The registry has the schema, but it can't be used. is_text: because its text is invalid."""

    def __init__(self, message: str, *, is_text: bool = False) -> None:
        super().__init__(*INVALID_SCHEMA, message)
        self.is_text = is_text


@dataclass(frozen=True, slots=True)
class Send:
    """A request to one instance; the result is the answer's status and body, the failure Unanswered."""

    method: str
    url: str
    path: str
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """A pause."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Parse:
    """A text with those that it refers to; the result is a ParsedSchema, the failure InvalidSchema."""

    schema_type: SchemaType
    text: str
    references: Mapping[str, str]


Step: TypeAlias = Send | Wait | Parse
Steps: TypeAlias = Generator[Step, Any, T]
Key: TypeAlias = tuple[str | int | bytes, ...]


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its id; with `subject` and `version` where the question named a subject.

    rules, metadata: those that the registry keeps with it.
    """

    id: int
    parsed: ParsedSchema
    subject: str | None = None
    version: int | None = None
    rules: RuleSet | None = None
    metadata: Metadata | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """Asks for a schema. Questions with the same key have the same answer."""

    key: Key
    steps: Callable[[], Steps[RegisteredSchema]]


class Asking(Generic[T]):
    """A question under way.

    step: the next step to do, None once `answer` is there. The constructor, `go_on` and `fail` raise
        RegistryRefusal and RegistryUnreachable.
    """

    def __init__(self, steps: Steps[T]) -> None:
        self.step: Step | None = None
        self._steps = steps
        self._answer: T | None = None
        self._take(lambda: next(steps))

    @property
    def answer(self) -> T:
        """The schema that the question asked for, or the answer of another request."""
        assert self._answer is not None, "there are steps left"
        return self._answer

    def go_on(self, result: tuple[int, bytes] | ParsedSchema | None) -> None:
        """The step is done, with this result."""
        self._take(lambda: self._steps.send(result))

    def fail(self, problem: Unanswered | InvalidSchema) -> None:
        """The step has failed."""
        self._take(lambda: self._steps.throw(problem))

    def close(self) -> None:
        """Leave the question unanswered."""
        self._steps.close()

    def _take(self, advance: Callable[[], Step]) -> None:
        try:
            self.step = advance()
        except StopIteration as end:
            self.step, self._answer = None, end.value


class Lookups:
    """The questions to one registry, and the answers that are kept.

    unknown_seconds: how long the answer that an id has no schema is kept.
    """

    def __init__(
        self,
        access: RegistryAccess,
        unknown_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._attempts = access.attempts
        self._urls = access.urls
        self._unknown_seconds = unknown_seconds
        self._cache: Cache[RegisteredSchema] = Cache(KEPT_SCHEMAS, KEPT_TEXT_CHARACTERS, clock)

    def by_id(self, schema_id: int) -> Question:
        """The schema of an id."""
        return Question(("id", schema_id), lambda: self._by_id(schema_id))

    def latest(self, subject: str) -> Question:
        """The newest version; kept for a few seconds only."""
        return self._of_subject(subject, "latest")

    def version(self, subject: str, version: int) -> Question:
        """One version of a subject."""
        return self._of_subject(subject, str(version))

    def register(self, subject: str, schema_type: SchemaType, text: str) -> Question:
        """Register a schema, or find it registered."""
        key = _text_key(subject, schema_type, text)
        return Question(key, lambda: self._register(subject, schema_type, text))

    def registered(self, subject: str, schema_type: SchemaType, text: str) -> Question:
        """The schema of a text that is registered under a subject."""
        key = _text_key(subject, schema_type, text)
        return Question(key, lambda: self._registered(subject, schema_type, text))

    def version_under(self, schema: RegisteredSchema, subject: str) -> Question:
        """The schema with its version under `subject`; the version is None when it has none there."""
        return Question(("place", schema.id, subject), lambda: self._version_under(schema, subject))

    def steps(self, question: Question) -> Steps[RegisteredSchema]:
        """The steps to the answer: none where it is kept."""
        kept = self._cache.recall(question.key)
        return kept if kept is not None else (yield from question.steps())

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Steps[dict[str, Any]]:
        """The steps to the answer of any request, which is not kept."""
        return self._asked(method, path, body)

    # -- the questions' steps --------------------------------------------------------------------------

    def _by_id(self, schema_id: int) -> Steps[RegisteredSchema]:
        key = ("id", schema_id)
        try:
            answer = yield from self._asked("GET", f"/schemas/ids/{schema_id}")
        except RegistryRefusal as refusal:
            if self._unknown_seconds and refusal.is_told and refusal.status == 404:
                self._cache.keep(key, refusal, self._unknown_seconds)
            raise
        found = RegisteredSchema(
            schema_id, (yield from self._parsed(answer)), None, None, *_kept_with(answer)
        )
        self._keep(key, found)
        return found

    def _register(self, subject: str, schema_type: SchemaType, text: str) -> Steps[RegisteredSchema]:
        body = {"schema": text, "schemaType": schema_type.value}
        schema_id = _whole(
            (yield from self._asked("POST", f"/subjects/{quoted(subject)}/versions", body)), "id"
        )
        # looked up: before Confluent's 8.0 the answer to a registration has no version
        found = replace((yield from self._registered(subject, schema_type, text)), id=schema_id)
        self._keep(_text_key(subject, schema_type, text), found)
        self._keep(("id", schema_id), replace(found, subject=None, version=None))
        return found

    def _registered(self, subject: str, schema_type: SchemaType, text: str) -> Steps[RegisteredSchema]:
        body = {"schema": text, "schemaType": schema_type.value}
        answer = yield from self._asked("POST", f"/subjects/{quoted(subject)}", body)
        parsed = yield from self._parsed(answer)
        schema_id, version = _whole(answer, "id"), _whole(answer, "version")
        found = RegisteredSchema(schema_id, parsed, subject, version, *_kept_with(answer))
        self._keep(_text_key(subject, schema_type, text), found)
        return found

    def _version_under(self, schema: RegisteredSchema, subject: str) -> Steps[RegisteredSchema]:
        answer = yield from self._said("GET", f"/schemas/ids/{schema.id}/versions")
        versions = [
            place["version"]
            for place in (answer if isinstance(answer, list) else ())
            if isinstance(place, dict)
            and place.get("subject") == subject
            and type(place.get("version")) is int
        ]
        found = replace(schema, subject=subject, version=max(versions, default=None))
        self._keep(("place", schema.id, subject), found, None if versions else LATEST_SECONDS)
        return found

    def _of_subject(self, subject: str, version: str) -> Question:
        key = ("version", subject, version)
        return Question(key, lambda: self._version(key, subject, version))

    def _version(self, key: Key, subject: str, version: str) -> Steps[RegisteredSchema]:
        answer = yield from self._asked("GET", _version_path(subject, version))
        schema_id = _whole(answer, "id")
        known = self._recall_id(schema_id)
        parsed = known.parsed if known is not None else (yield from self._parsed(answer))
        number = _optional_whole(answer, "version")
        found = RegisteredSchema(schema_id, parsed, subject, number, *_kept_with(answer))
        self._keep(key, found, LATEST_SECONDS if version == "latest" else None)
        self._keep(("id", schema_id), replace(found, subject=None, version=None))
        return found

    def _recall_id(self, schema_id: int) -> RegisteredSchema | None:
        try:
            return self._cache.recall(("id", schema_id))
        except RegistryRefusal:
            return None  # kept as unknown; the schema was registered since

    def _keep(self, key: Key, found: RegisteredSchema, seconds: float | None = None) -> None:
        self._cache.keep(key, found, seconds, len(found.parsed.canonical_text))

    # -- what an answer holds --------------------------------------------------------------------------

    def _parsed(self, answer: Mapping[str, Any]) -> Steps[ParsedSchema]:
        """The schema of an answer, parsed together with all schemas that it refers to."""
        references: dict[str, str] = {}
        yield from self._collect(answer, references, ())
        text, name = answer.get("schema"), answer.get("schemaType") or SchemaType.AVRO
        try:
            schema_type = SchemaType(name)
        except ValueError:
            raise UnusableSchema(f"The schema is of an unknown type: {name}") from None
        if not isinstance(text, str):
            raise UnusableAnswer("the registry's answer holds no schema")
        try:
            parsed: ParsedSchema = yield Parse(schema_type, text, references)
        except InvalidSchema as problem:
            raise UnusableSchema(f"The registry's schema can't be read: {problem}", is_text=True) from None
        return parsed

    def _collect(
        self, answer: Mapping[str, Any], references: dict[str, str], path: tuple[str, ...]
    ) -> Steps[None]:
        """Put the texts that this schema refers to into `references`, those first that others need.

        `path`: the names of the references from the first schema to this one. Deleted versions are included:
                schemas still refer to them.
        """
        for name, subject, version in _references_in(answer):
            if name in path:
                raise UnusableSchema(
                    f"the reference {name} leads back to itself: {' -> '.join((*path, name))}"
                )
            if name in references:
                continue
            if len(references) + len(path) >= MAX_REFERENCES:
                raise UnusableSchema(f"The schema refers to more than {MAX_REFERENCES} others")
            found = yield from self._asked("GET", f"{_version_path(subject, version)}?deleted=true")
            yield from self._collect(found, references, (*path, name))
            references[name] = str(found.get("schema"))

    # -- an answer -------------------------------------------------------------------------------------

    def _asked(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Steps[dict[str, Any]]:
        """The answer as an object; one without fields for any other JSON."""
        said = yield from self._said(method, path, body)
        return said if isinstance(said, dict) else {}

    def _said(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Steps[dict[str, Any] | list[Any]]:
        """The answer of the first instance that gives one; where one fails, the next is asked."""
        refusal: RegistryRefusal | None = None
        reason = "no instance is known"
        for attempt in range(self._attempts):
            if attempt:
                yield Wait(min(_FIRST_WAIT_SECONDS * 2 ** (attempt - 1), _LONGEST_WAIT_SECONDS))
            for url in list(self._urls):
                try:
                    status, answer = yield Send(method, url, path, body)
                    said = judged(status, answer, url, path)
                except Unanswered as failure:
                    reason = f"{shown(url)} does not answer: {failure}"
                    if failure.is_final:
                        raise RegistryUnreachable(reason) from None
                except RegistryRefusal as problem:
                    if not problem.is_passing:
                        raise
                    refusal = problem
                else:
                    self._urls = [url, *(other for other in self._urls if other != url)]
                    return said
        raise refusal or RegistryUnreachable(reason)


def _references_in(answer: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, subject and version of each reference. Raises UnusableAnswer."""
    try:
        return [
            (str(reference["name"]), str(reference["subject"]), str(reference["version"]))
            for reference in answer.get("references") or ()
        ]
    except (KeyError, TypeError):
        raise UnusableAnswer("the registry's answer has references of another shape") from None


def _kept_with(answer: Mapping[str, Any]) -> tuple[RuleSet | None, Metadata | None]:
    """The rules and the metadata of an answer. Raises UnusableAnswer: a rule must not be overlooked."""
    rules, metadata = answer.get("ruleSet"), answer.get("metadata")
    try:
        return (
            None if rules is None else RuleSet.from_json(rules),
            None if metadata is None else Metadata.from_json(metadata),
        )
    except ValueError as problem:
        raise UnusableAnswer(
            f"the registry's answer has rules or metadata of another shape: {problem}"
        ) from None


def _version_path(subject: str, version: str) -> str:
    return f"/subjects/{quoted(subject)}/versions/{version}"


def _text_key(subject: str, schema_type: SchemaType, text: str) -> Key:
    return "text", subject, schema_type.value, hashlib.sha256(text.encode(errors="replace")).digest()


def _whole(answer: Mapping[str, Any], name: str) -> int:
    value = answer.get(name)
    if not isinstance(value, int):
        raise UnusableAnswer(f"the registry's answer has no {name}")
    return value


def _optional_whole(answer: Mapping[str, Any], name: str) -> int | None:
    return _whole(answer, name) if name in answer else None
