"""Parses the registry's schemas with all their references; keeps those that were used last."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from ottla.registry.core.contexts import relative_to
from ottla.registry.core.failures import invalid_schema, invalid_schema_text
from ottla.registry.core.image import RegistryImage, StoredSchema
from ottla.registry.workbench import Workbench
from ottla.schemas.format import InvalidSchema, ParsedSchema, SchemaFormat
from ottla.schemas.formats import format_of
from ottla.schemas.model import LATEST, Reference, Schema, SchemaType

MAX_REFERENCES: Final = 1_000
"""Schemas that one schema may refer to, directly or not."""
MAX_REFERENCE_DEPTH: Final = 64
CHARACTERS_OF_A_STEP: Final = 1
"""Characters of a text that take as long to parse or write as a step."""
KEPT_SCHEMAS: Final = 2_000
KEPT_CHARACTERS: Final = 32 << 20
"""Characters of the texts of all parsed schemas that are kept, their references included."""

_CacheKey = tuple[SchemaType, bool, str, tuple[tuple[str, str], ...]]


class SchemaParser:
    """Parses schemas as those of a subject: a reference without a context is in the subject's context."""

    def __init__(
        self,
        image: RegistryImage,
        formats: Callable[[SchemaType], SchemaFormat] = format_of,
        validate_defaults: bool = False,
        workbench: Workbench | None = None,
    ) -> None:
        self._image = image
        self._workbench = workbench or Workbench()
        self.formats = formats
        self._validate_defaults = validate_defaults
        self._kept: OrderedDict[_CacheKey, ParsedSchema] = OrderedDict()
        self._kept_characters = 0
        self._keeping = threading.Lock()  # queries run on the event loop and in threads

    def parse(self, subject: str, schema: Schema, *, new: bool = False) -> ParsedSchema:
        """The parsed schema. Raises ApiError 42201, PutOff.

        new: with the check that only schemas to be registered must pass, and only where it is configured:
            whether defaults fit their types.
        """
        new = new and self._validate_defaults
        if not schema.text.strip():
            raise invalid_schema("Empty schema")
        references = self.referenced_texts(subject, schema.references)
        key = (schema.schema_type, new, schema.text, tuple(references.items()))
        with self._keeping:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found
        parsing = self.formats(schema.schema_type)
        size = _characters(key)
        try:
            found = self._workbench.done(
                ("parsed", key),
                lambda _: parsing.parse(schema.text, references, new=new),
                size // CHARACTERS_OF_A_STEP,
                lambda _: size,
            )
        except InvalidSchema as problem:
            names = ", ".join(reference.name for reference in schema.references)
            raise invalid_schema_text(schema.schema_type, schema.text, names, str(problem)) from None
        self._keep(key, found)
        return found

    def normal_text(self, fingerprint: bytes, parsed: ParsedSchema) -> str:
        """The normal form of a parsed schema. Raises PutOff."""
        size = len(parsed.canonical_text)
        return self._workbench.done(
            ("normal", fingerprint), lambda _: parsed.normalized(), size // CHARACTERS_OF_A_STEP, len
        )

    def fingerprint(self, subject: str, schema: Schema, text: str | None = None) -> bytes:
        """A digest of the schema's text, and of the texts of its references.

        `text` stands for the schema's own. Raises ApiError 42201.
        """
        found = hashlib.sha256(schema.schema_type.encode())
        own = schema.text if text is None else text
        for name, referenced in (("", own), *self.referenced_texts(subject, schema.references).items()):
            for part in (name, referenced):
                data = part.encode(errors="surrogatepass")
                found.update(len(data).to_bytes(8, "big"))
                found.update(data)
        return found.digest()

    def parse_stored(self, stored: StoredSchema) -> ParsedSchema:
        """The parsed schema. Raises ApiError 42201 for one that older rules let in."""
        return self.parse(stored.subject, stored.schema)

    def numbered(self, subject: str, references: Sequence[Reference]) -> tuple[Reference, ...]:
        """The references with the numbers of the newest versions for LATEST. Raises ApiError 42201."""
        return tuple(
            reference
            if reference.version != LATEST
            else Reference(reference.name, reference.subject, self._target(subject, reference).version)
            for reference in references
        )

    def referenced_texts(self, subject: str, references: Sequence[Reference]) -> dict[str, str]:
        """The texts of all referenced schemas, directly or not, each after those that it needs.

        Of two versions under one name the more directly referenced one is taken. Raises ApiError
        42201 where one is missing, refers to itself, or they are too many.
        """
        if not references:
            return {}
        chosen = {reference.name: self._target(subject, reference) for reference in references}
        texts: dict[str, str] = {}
        for reference in references:
            self._add(reference.name, chosen, texts, [])
        return texts

    def _add(
        self, name: str, chosen: dict[str, StoredSchema], texts: dict[str, str], path: list[str]
    ) -> None:
        """Add the schema under `name`, after its own references. `path`: the names that led here."""
        if name in path:
            raise invalid_schema(f"the reference {name} leads back to itself: {' -> '.join([*path, name])}")
        if name in texts:
            return
        if len(path) >= MAX_REFERENCE_DEPTH or len(chosen) > MAX_REFERENCES:
            raise invalid_schema(
                f"the reference {name} is one too many: at most {MAX_REFERENCES} schemas can be referred to, "
                f"{MAX_REFERENCE_DEPTH} deep"
            )
        target = chosen[name]
        path.append(name)
        for reference in target.schema.references:
            if reference.name not in chosen:
                chosen[reference.name] = self._target(target.subject, reference)
            self._add(reference.name, chosen, texts, path)
        path.pop()
        texts[name] = target.schema.text

    def _target(self, subject: str, reference: Reference) -> StoredSchema:
        """The version that a reference of `subject`'s schema names; it may be softly deleted."""
        referred = relative_to(subject, reference.subject)
        if reference.version != LATEST:
            found = self._image.versions(referred).get(reference.version)
        else:
            found = next(self._image.newest_first(referred), None)
        if found is None:
            raise invalid_schema(
                f'No schema reference found for subject "{reference.subject}" and version '
                f"{reference.version} (reference {reference.name})"
            )
        return found

    def _keep(self, key: _CacheKey, parsed: ParsedSchema) -> None:
        size = _characters(key)
        if size > KEPT_CHARACTERS // 10:
            return
        with self._keeping:
            if key not in self._kept:
                self._kept_characters += size
            self._kept[key] = parsed
            while len(self._kept) > KEPT_SCHEMAS or self._kept_characters > KEPT_CHARACTERS:
                oldest, _ = self._kept.popitem(last=False)
                self._kept_characters -= _characters(oldest)


def _characters(key: _CacheKey) -> int:
    _, _, text, references = key
    return len(text) + sum(len(referenced) for _, referenced in references)
