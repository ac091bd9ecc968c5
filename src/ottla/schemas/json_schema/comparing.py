"""What the rules for objects, arrays and sums use of a comparison of two schemas, which in turn uses them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from ottla.schemas.json_schema.dialects import Dialect
from ottla.schemas.json_schema.findings import Entry, Findings
from ottla.schemas.json_schema.patterns import Patterns
from ottla.schemas.json_schema.views import SchemaValue, Sum, View


class Comparing(Protocol):
    """Compares subschemas of two documents. All that walks raises the errors of its effort (`spend`)."""

    @property
    def patterns(self) -> Patterns:
        """The regular expressions of both documents, compiled."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether no difference is tolerated after which a value might not fit."""
        ...

    def is_bad(self, found: Iterable[Entry]) -> bool:
        """Whether any of the differences is incompatible."""
        ...

    def make(self, schema: dict[str, Any], dialect: Dialect) -> dict[str, Any]:
        """Take in a schema that a rule has made, so that it can be compared."""
        ...

    def spend(self, steps: int = 1) -> None:
        """Count steps that come next."""
        ...

    def differences(self, old: SchemaValue, new: SchemaValue) -> Findings:
        """What differs from `old` to `new`, at places within them."""
        ...

    def is_compatible(self, old: SchemaValue, new: SchemaValue) -> bool:
        """Whether all differences are compatible."""
        ...

    def surely_fits(self, old: SchemaValue, new: SchemaValue) -> bool:
        """Whether every value that fits the old schema fits the new one: no difference is tolerated."""
        ...

    def is_unrestricted(self, schema: SchemaValue) -> bool:
        """Whether every value fits the schema."""
        ...

    def view(self, schema: Mapping[str, Any]) -> View:
        """`schema` taken apart."""
        ...

    def targets_of(self, schema: SchemaValue) -> tuple[SchemaValue, ...]:
        """The schemas that its references mean."""
        ...

    def keyword_differences(self, old: View, new: View, keyword: str) -> Iterator[Entry]:
        """What differs between the subschemas under a keyword that either may lack."""
        ...

    def are_same(self, left: SchemaValue, right: SchemaValue) -> bool:
        """Whether two schemas say the same in the same words, annotations and order of keywords apart."""
        ...

    def are_same_sums(self, left: Sum, right: Sum) -> bool:
        """Whether two sums have the same subschemas, one by one."""
        ...
