"""Settings of OAUTHBEARER that Apache Kafka reads as system properties of Java, under the same names.

They are a table of their own, so that `broker_settings` stays Kafka's word for word.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.config.setting import Setting, string

ALLOWED_URLS: Final = string.optional(
    "org.apache.kafka.sasl.oauthbearer.allowed.urls",
    "Addresses of https that OAUTHBEARER may use, with commas between; all that are set if this is not.",
)
ALLOWED_FILES: Final = string.optional(
    "org.apache.kafka.sasl.oauthbearer.allowed.files",
    "Files that OAUTHBEARER may use, with commas between; all that are set if this is not.",
)
OAUTHBEARER_BROKER_SETTINGS: Final[Mapping[str, Setting[Any]]] = {
    each.name: each for each in (ALLOWED_URLS, ALLOWED_FILES)
}
