"""Names in Avro schemas that Confluent's converter gives, and defaults of bytes as Avro's JSON tells them."""

from __future__ import annotations

import base64
from typing import Any, Final

NAMESPACE: Final = "io.confluent.connect.avro"
UNION: Final = f"{NAMESPACE}.Union"


def as_bytes(told: Any) -> bytes:
    """The bytes of a default. Raises DataError."""
    try:
        return str(told).encode("latin-1")
    except UnicodeEncodeError:
        return base64.b64decode(told)
