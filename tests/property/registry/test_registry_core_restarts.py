"""Whatever is asked of the registry, an instance that reads its topic, compacted or not, answers the same.

Checked on the way: an id stands for one schema of a context for ever, deleted or not; new ids are higher than
all before; a schema that is registered has the id that it had; a decision that is refused changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.registry.core.contexts import context_of
from ottla.registry.core.image import Deleted
from ottla.registry.core.reading import LATEST, SchemaRequest
from ottla.registry.core.records import Mode
from ottla.replicated.decision import Decision
from ottla.schemas.model import CompatibilityLevel, Metadata, Reference, Schema, SchemaType
from ottla.web.errors import ApiError
from support.exploration import examples
from support.registry.registry_core import InMemoryRegistry, avro_record

SUBJECTS = st.sampled_from(["a", "b", ":.c:a", ":.c:b"])
SCOPES = st.one_of(st.none(), SUBJECTS, st.sampled_from([":.c:", ":.__GLOBAL:"]))
TEXTS = st.sampled_from([avro_record("x"), avro_record("x", "y?"), avro_record("x", "y"), '"string"'])
VERSIONS = st.one_of(st.just(LATEST), st.integers(1, 4))
METADATA = st.sampled_from([None, Metadata(properties={"p": "1"}), Metadata(properties={"p": "2"})])
IDS = st.integers(1, 8)


class RegistryMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.registry = InMemoryRegistry()
        self.given: dict[tuple[str, int], str] = {}

    def do(self, decide: Callable[[], Decision[Any]]) -> Any:
        """The answer, or None where the registry refuses."""
        before = len(self.registry.records)
        try:
            decision = decide()
        except ApiError as error:
            assert error.status in (404, 409, 422), error.message
            assert len(self.registry.records) == before
            return None
        return self.registry.apply(decision)

    @rule(subject=SUBJECTS, text=TEXTS, metadata=METADATA, normalize=st.booleans())
    def register(self, subject: str, text: str, metadata: Metadata | None, normalize: bool) -> None:
        self._register(subject, SchemaRequest(Schema(SchemaType.AVRO, text, (), metadata)), normalize)

    @rule(subject=SUBJECTS, to=SUBJECTS, version=VERSIONS)
    def refer(self, subject: str, to: str, version: int) -> None:
        text = '{"type":"record","name":"U","fields":[{"name":"r","type":"R"}]}'
        self._register(subject, SchemaRequest(Schema(SchemaType.AVRO, text, (Reference("R", to, version),))))

    @rule(subject=SUBJECTS, text=TEXTS, schema_id=IDS, version=st.one_of(st.none(), st.integers(1, 5)))
    def bring_in(self, subject: str, text: str, schema_id: int, version: int | None) -> None:
        """An import, where the mode allows it."""
        self._register(subject, SchemaRequest(Schema(SchemaType.AVRO, text), version, schema_id))

    def _register(self, subject: str, request: SchemaRequest, normalize: bool = False) -> None:
        before = self.registry.image
        highest = {context: before.highest_id(context) for context in (".", ".c")}
        used = {context: request.id and before.use(context, request.id) for context in highest}
        stored = self.do(lambda: self.registry.writes.register(subject, request, normalize))
        if stored is None:
            return
        context, guid = context_of(stored.subject), stored.schema.guid
        if request.id is not None and used[context] is None:
            self.given[context, stored.id] = guid  # an import may give an id again that was deleted for good
        assert self.given.setdefault((context, stored.id), guid) == guid, "an id stands for one schema"
        if request.id is None:
            assert stored.id <= highest[context] + 1
        assert self.registry.reads.by_id(stored.id, stored.subject).schema.text == stored.schema.text

    @rule(subject=SUBJECTS, version=VERSIONS, permanent=st.booleans())
    def delete_version(self, subject: str, version: int, permanent: bool) -> None:
        self.do(lambda: self.registry.writes.delete_version(subject, version, permanent))

    @rule(subject=SUBJECTS, permanent=st.booleans())
    def delete_subject(self, subject: str, permanent: bool) -> None:
        self.do(lambda: self.registry.writes.delete_subject(subject, permanent))

    @rule(
        scope=SCOPES, level=st.sampled_from(list(CompatibilityLevel)), alias=st.sampled_from([None, "", "b"])
    )
    def configure(self, scope: str | None, level: CompatibilityLevel, alias: str | None) -> None:
        update = {"compatibility": level, "alias": alias, "defaultMetadata": {"properties": {"d": level}}}
        self.do(lambda: self.registry.writes.set_config(scope, update))

    @rule(scope=SCOPES)
    def forget_configuration(self, scope: str | None) -> None:
        self.do(lambda: self.registry.writes.delete_config(scope))

    @rule(
        scope=SCOPES, mode=st.sampled_from([Mode.READWRITE, Mode.READONLY, Mode.IMPORT]), force=st.booleans()
    )
    def set_mode(self, scope: str | None, mode: Mode, force: bool) -> None:
        self.do(lambda: self.registry.writes.set_mode(scope, mode, force))

    @rule(scope=SCOPES, recursive=st.booleans())
    def forget_mode(self, scope: str | None, recursive: bool) -> None:
        self.do(lambda: self.registry.writes.delete_mode(scope, recursive))

    @rule()
    def delete_context(self) -> None:
        self.do(lambda: self.registry.writes.delete_context(".c"))

    @rule(compacted=st.booleans())
    def restart(self, compacted: bool) -> None:
        self.registry = self.registry.restarted(compacted=compacted)

    @invariant()
    def others_answer_the_same(self) -> None:
        mine = answers(self.registry)
        assert answers(self.registry.restarted()) == mine
        assert answers(self.registry.restarted(compacted=True)) == mine


def answers(registry: InMemoryRegistry) -> dict[str, Any]:
    """All that can be asked, errors included."""
    reads = registry.reads

    def told(ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except ApiError as error:
            return error.error_code, error.message

    found: dict[str, Any] = {"contexts": reads.contexts()}
    for show in Deleted:
        found[f"subjects {show}"] = reads.subjects(":*:", show)
    for context in (".", ".c"):
        found[f"highest {context}"] = reads.max_id(context)
        for schema_id in range(1, reads.max_id(context) + 1):
            named = f":{context}:"
            found[f"id {context} {schema_id}"] = told(lambda: reads.uses_of_id(schema_id, named, True))  # noqa: B023
    for scope in (None, "a", "b", ":.c:", ":.c:a", ":.c:b", ":.__GLOBAL:"):
        found[f"config {scope}"] = told(lambda: reads.config(scope))  # noqa: B023
        found[f"mode {scope}"] = told(lambda: reads.mode(scope))  # noqa: B023
    for stored, aliases in reads.schemas(":*:", aliases=True, deleted=True):
        found[f"{stored.subject} {stored.version}"] = (
            stored,
            list(aliases),
            reads.ids_of_guid(stored.schema.guid),
            sorted((one.subject, one.version) for one in reads.referrers(stored)),
        )
    return found


TestRegistry = RegistryMachine.TestCase
TestRegistry.settings = settings(max_examples=examples(60), stateful_step_count=25, deadline=None)
