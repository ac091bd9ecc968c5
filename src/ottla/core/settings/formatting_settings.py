"""Settings of ottla's own that count when a directory is formatted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.config.setting import Setting, password

ADD_SCRAM: Final = password.optional(
    "ottla.format.add.scram",
    "The first users of a new cluster, as kafka-storage format --add-scram takes them: "
    "SCRAM-SHA-256=[name=alice,password=secret], a semicolon between two. Every controller needs the same.",
)
FORMATTING_SETTINGS: Final[Mapping[str, Setting[Any]]] = {ADD_SCRAM.name: ADD_SCRAM}
