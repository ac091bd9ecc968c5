"""JSON Schema as a format of the registry: drafts 4 to 2020-12, parsed, normalized and compared.

A text is stored without blanks, with its keys in their order and its numbers as they were spelt. References
lead to places within the document and to the schemas it was registered with. Patterns are not run when a
schema is registered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any, Final

from ottla.schemas.effort import MAX_STEPS, Effort, TooMuchWork
from ottla.schemas.format import Incompatibility, InvalidSchema, ParsedSchema
from ottla.schemas.json_schema.comparison import PAIR_STEPS, Comparison
from ottla.schemas.json_schema.dialects import (
    DRAFT_7,
    Dialect,
    check_against_meta_schema,
    dialect_of,
    shortened,
)
from ottla.schemas.json_schema.differences import (
    COMPATIBLE,
    Difference,
    Kind,
    describe,
)
from ottla.schemas.json_schema.documents import MAX_VALUES, read_json, write_json
from ottla.schemas.json_schema.findings import NOTHING, Findings
from ottla.schemas.json_schema.references import MAX_CHARACTERS, resolved
from ottla.schemas.json_schema.value_patterns import PatternTooSlow
from ottla.schemas.json_schema.value_steps import counted_for
from ottla.schemas.model import CompatibilityPolicy, SchemaType

MAX_MESSAGES: Final = 5
"""The most reasons that `validate` gives for a value."""
MAX_INCOMPATIBILITIES: Final = 100
MAX_DIFFERENCES: Final = 10_000
MAX_REFERRED_VALUES: Final = 5 * MAX_VALUES
"""The most values in all schemas that one schema refers to."""


class JsonSchemaFormat:
    """Parses JSON Schemas."""

    @property
    def schema_type(self) -> SchemaType:
        return SchemaType.JSON

    def parse(self, text: str, references: Mapping[str, str], *, new: bool = False) -> JsonSchema:
        """Parse a schema and check it against its draft's meta-schema. Raises InvalidSchema.

        `new` makes no difference: there are no checks for new schemas only.
        """
        _check_sizes(references.values())
        root, dialect = _checked(text, DRAFT_7)
        documents = {name: _referred_to(name, each, dialect) for name, each in references.items()}
        return JsonSchema(root, dialect, documents, tuple(references.items()))


class JsonSchema:
    """A valid JSON Schema. Immutable."""

    def __init__(
        self,
        root: Any,
        dialect: Dialect,
        documents: Mapping[str, Any],
        references: tuple[tuple[str, str], ...],
    ) -> None:
        """Raises InvalidSchema if a reference leads nowhere."""
        self._root = root
        self._dialect = dialect
        self._references = references
        self._text = write_json(root)
        self._graph, self._registry = resolved(root, dialect, documents)

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
        """The canonical text, as JSON Schemas have no other formats."""
        return self._text

    def differences(
        self, written: JsonSchema, policy: CompatibilityPolicy = CompatibilityPolicy.STRICT
    ) -> tuple[Difference, ...]:
        """The first MAX_DIFFERENCES differences from `written` to this schema, compatible or not.

        The policy matters if subschemas can be paired in more than one way. Raises TooMuchWork.
        """
        return tuple(islice(self._compared(written, policy, Effort()).all(), MAX_DIFFERENCES))

    def incompatibilities(
        self,
        written: ParsedSchema,
        policy: CompatibilityPolicy = CompatibilityPolicy.STRICT,
        effort: Effort | None = None,
    ) -> Sequence[Incompatibility]:
        if not isinstance(written, JsonSchema):
            raise TypeError(f"a JSON Schema is not compared with one of {written.schema_type}")
        effort = effort or Effort()
        try:
            found = self._compared(written, policy, effort)
        except RecursionError:
            return [_not_compared("nested too deeply, through their references,")]
        except TooMuchWork:
            if not effort.is_whole:
                raise
            return [_not_compared(f"too large (some {MAX_STEPS // PAIR_STEPS} pairs of subschemas)")]
        bad = islice(found.all(COMPATIBLE[policy]), MAX_INCOMPATIBILITIES)
        return [Incompatibility(each.kind.value, describe(each)) for each in bad]

    def _compared(self, written: JsonSchema, policy: CompatibilityPolicy, effort: Effort) -> Findings:
        if self._text == written._text and self._references == written._references:
            return NOTHING
        comparison = Comparison((written._graph, self._graph), COMPATIBLE[policy], effort)
        return comparison.differences(written._root, self._root)

    def validate(self, value: object) -> list[str]:
        """Why a JSON value does not fit the schema: at most MAX_MESSAGES reasons, none if it fits.

        `format` is an annotation and is not checked. A pattern that takes too long counts as a reason.
        """
        try:
            with counted_for(value):
                found = islice(self._validator.iter_errors(value), MAX_MESSAGES)
                return [f"{shortened(each.message)} at '{each.json_path}'" for each in found]
        except TooMuchWork:
            return ["the schema applies too many subschemas to one value to be checked"]
        except RecursionError:
            return ["the value or the schema is nested too deeply to be checked"]
        except PatternTooSlow as problem:
            return [shortened(str(problem))]
        except Exception as problem:  # an invalid pattern, or an error in the library
            reason = shortened(f"{type(problem).__name__}: {problem}")
            return [f"the schema can't be used to check a value: {reason}"]

    @cached_property
    def _validator(self) -> Any:
        # Without this resolver it makes one that takes lists among `dependencies` for schemas.
        root = self._dialect.specification.create_resource(self._root)
        validator: Any = self._dialect.validator
        return validator(self._root, _resolver=self._registry.resolver(root.id() or ""))


def _check_sizes(references: Collection[str]) -> None:
    """Raise InvalidSchema if references are too large together; each has bounds of its own, too."""
    if sum(map(len, references)) > MAX_CHARACTERS:
        raise InvalidSchema(f"the schemas that it refers to have more than {MAX_CHARACTERS} characters")
    if sum(text.count(mark) for text in references for mark in ",{[") > MAX_REFERRED_VALUES:
        raise InvalidSchema(f"the schemas that it refers to have more than {MAX_REFERRED_VALUES} values")


def _not_compared(reason: str) -> Incompatibility:
    return Incompatibility(
        Kind.COMBINED_TYPE_SUBSCHEMAS_CHANGED.value,
        f"Found no way to compare the new schema with the old one: they are {reason} to be compared",
    )


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
