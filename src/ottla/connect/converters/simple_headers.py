"""Headers as texts without schemas: SimpleHeaderConverter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ottla.config.setting import Table
from ottla.connect.converters.settings import VERSION, table
from ottla.connect.data.schema import Schema
from ottla.connect.data.values import parse_string, value_to_string
from ottla.connect.plugins.configuring import configured


class SimpleHeaderConverter:
    """Texts that are read as the type that they look like."""

    TABLE: ClassVar[Table] = table("simple header converter")
    VERSION: ClassVar[str] = VERSION

    def configure(self, properties: Mapping[str, str], is_key: bool) -> None:
        """See Converter."""
        configured(self.TABLE, properties)

    def to_connect(self, topic: str, data: bytes | None) -> tuple[Any, Any]:
        """See Converter."""
        return (None, None) if data is None else parse_string(data.decode("utf-8", "replace"))

    def from_connect(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """See Converter."""
        return None if value is None else value_to_string(value, schema).encode("utf-8", "replace")
