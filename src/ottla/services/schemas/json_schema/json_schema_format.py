"""JSON Schema as a format of the registry: drafts 4 to 2020-12, parsed, normalized and compared.

A text is stored without blanks, in the order of its keys, its numbers as they were spelt. References lead
within the document and to the schemas that it was registered with. Patterns are not run when a schema is
registered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final

from referencing import Registry

from ottla.services.schemas.format import Incompatibility, InvalidSchema, ParsedSchema
from ottla.services.schemas.json_schema.comparison import Comparison, TooComplex
from ottla.services.schemas.json_schema.dialects import (
    DRAFT_7,
    Dialect,
    check_against_meta_schema,
    dialect_of,
    shortened,
)
from ottla.services.schemas.json_schema.differences import (
    COMPATIBLE,
    Difference,
    Kind,
    describe,
)
from ottla.services.schemas.json_schema.documents import read_json, write_json
from ottla.services.schemas.json_schema.references import Graph, graph_of, registry_of
from ottla.services.schemas.json_schema.value_patterns import PatternTooSlow
from ottla.services.schemas.model import CompatibilityPolicy, SchemaType

MAX_MESSAGES: Final = 5
"""What `validate` says at most about a value."""
MAX_INCOMPATIBILITIES: Final = 100


class JsonSchemaFormat:
    """Parses JSON Schemas."""

    @property
    def schema_type(self) -> SchemaType:
        return SchemaType.JSON

    def parse(self, text: str, references: Mapping[str, str], *, new: bool = False) -> JsonSchema:
        """Parse a schema and check it against its draft's meta-schema. Raises InvalidSchema.

        There is nothing that only a `new` schema must pass.
        """
        root, dialect = _checked(text, DRAFT_7)
        documents = {name: _referred_to(name, each, dialect) for name, each in references.items()}
        schema = JsonSchema(root, dialect, documents, tuple(references.items()))
        schema.graph()
        return schema


class JsonSchema:
    """A valid JSON Schema. Immutable."""

    def __init__(
        self,
        root: Any,
        dialect: Dialect,
        documents: Mapping[str, Any],
        references: tuple[tuple[str, str], ...],
    ) -> None:
        self._root = root
        self._dialect = dialect
        self._references = references
        self._registry: Registry[Any] = registry_of(documents, dialect)
        self._text = write_json(root)

    @property
    def schema_type(self) -> SchemaType:
        return SchemaType.JSON

    @property
    def canonical_text(self) -> str:
        return self._text

    @property
    def name(self) -> str | None:
        """The schema's `title`."""
        title = self._root.get("title") if isinstance(self._root, dict) else None
        return title if isinstance(title, str) else None

    def normalized(self) -> str:
        return write_json(self._root, sort_keys=True)

    def formatted(self, format_name: str) -> str:
        """The canonical text: there are no other formats of JSON Schemas."""
        return self._text

    def graph(self) -> Graph:
        """Where the schema's references lead. Raises InvalidSchema, but not once it has not."""
        return graph_of(self._root, self._dialect, self._registry)

    def differences(
        self, written: JsonSchema, policy: CompatibilityPolicy = CompatibilityPolicy.STRICT
    ) -> tuple[Difference, ...]:
        """What differs from `written` to this schema, compatible or not.

        The policy counts where subschemas may be paired in more than one way.
        """
        if self._text == written._text and self._references == written._references:
            return ()
        comparison = Comparison((written.graph(), self.graph()), COMPATIBLE[policy])
        try:
            return comparison.differences(written._root, self._root)
        except (TooComplex, RecursionError):
            return (Difference(Kind.COMBINED_TYPE_SUBSCHEMAS_CHANGED),)

    def incompatibilities(
        self, written: ParsedSchema, policy: CompatibilityPolicy = CompatibilityPolicy.STRICT
    ) -> Sequence[Incompatibility]:
        if not isinstance(written, JsonSchema):
            raise TypeError(f"a JSON Schema is not compared with one of {written.schema_type}")
        found = self.differences(written, policy)
        bad = islice((each for each in found if each.kind not in COMPATIBLE[policy]), MAX_INCOMPATIBILITIES)
        return [Incompatibility(each.kind.value, describe(each)) for each in bad]

    def validate(self, value: object) -> list[str]:
        """Why a JSON value does not fit the schema: at most MAX_MESSAGES reasons, none where it does.

        `format` is an annotation and is not checked. A pattern that does not end in time is such a reason.
        """
        try:
            found = islice(self._validator.iter_errors(value), MAX_MESSAGES)
            return [f"{shortened(each.message)} at '{each.json_path}'" for each in found]
        except RecursionError:
            return ["the value or the schema is nested too deeply to be checked"]
        except PatternTooSlow as problem:
            return [shortened(str(problem))]
        except Exception as problem:  # a pattern that no engine here runs, and what the library overlooks
            reason = shortened(f"{type(problem).__name__}: {problem}")
            return [f"the schema can't be used to check a value: {reason}"]

    @cached_property
    def _validator(self) -> Any:
        # Without a resolver of ours it makes one that takes lists among `dependencies` for schemas.
        root = self._dialect.specification.create_resource(self._root)
        validator: Any = self._dialect.validator
        return validator(self._root, _resolver=self._registry.resolver_with_root(root))


def _checked(text: str, default: Dialect) -> tuple[Any, Dialect]:
    document = read_json(text)
    if not isinstance(document, (dict, bool)):
        raise InvalidSchema("a JSON Schema is an object or a boolean")
    dialect = dialect_of(document, default)
    check_against_meta_schema(document, dialect)
    return document, dialect


def _referred_to(name: str, text: str, default: Dialect) -> Any:
    try:
        return _checked(text, default)[0]
    except InvalidSchema as problem:
        raise InvalidSchema(f"the reference '{shortened(name)}': {problem}") from None
