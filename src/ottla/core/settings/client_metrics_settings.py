"""Every setting of a client metrics subscription (KIP-714)."""

from __future__ import annotations

from typing import Any

from ottla.config.setting import Setting, by_name, integer, string_list
from ottla.config.validators import ListOf

INTERVAL_MS = integer("interval.ms", 300_000, "How often clients push their metrics.")
MATCH = string_list("match", (), "Which clients: comma-separated key=pattern.", ListOf())
METRICS = string_list("metrics", (), "Prefixes of the names of the metrics; * is all.", ListOf())

CLIENT_METRICS_SETTINGS: dict[str, Setting[Any]] = by_name(globals().values())

#: The properties of a client that a pattern of `match` may name.
MATCH_KEYS = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
