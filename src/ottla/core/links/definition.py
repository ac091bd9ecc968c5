"""A link as it was asked for: its source, its topics, what comes along, and how the source is reached.

The whole definition is one dynamic setting of the cluster, `ottla.link.NAME`, as JSON. Brokers keep settings
that they do not know and never show their values, Apache Kafka's too; so secrets are where passwords of
brokers are, and creating a link takes what changing the brokers' settings takes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.core.settings.link_settings import LINK_PREFIX

MAX_NAME_LENGTH: Final = 100
MAX_DEFINITION_BYTES: Final = 256 * 1024
MAX_PATTERN_LENGTH: Final = 1_000
MIN_INTERVAL_MS: Final = 100
MAX_INTERVAL_MS: Final = 3_600_000
DEFAULT_INTERVAL_MS: Final = 1_000
MAX_BYTES_PER_SECOND: Final = 1 << 50
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_ADDRESS: Final = re.compile(r"(?P<host>\[[^\]]+\]|[^:\[\]\s]+):(?P<port>\d{1,5})")
SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
#: Settings of the source whose values may be shown.
_PUBLIC_SETTINGS: Final = frozenset(
    {
        "security.protocol",
        "sasl.mechanism",
        "ssl.truststore.location",
        "ssl.keystore.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.enabled.protocols",
    }
)
_SETTING_PREFIXES: Final = ("ssl.", "sasl.", "security.protocol")
HIDDEN: Final = "[hidden]"


class InvalidLink(ValueError):
    """A definition that can't be; one line that says why."""


@dataclass(frozen=True, slots=True)
class LinkDefinition:
    """One link.

    topics: names. patterns, excludes: regular expressions that have to match whole names. groups: which
    groups' offsets come along; None for none. interval_ms: how often metadata, groups and lag are looked at.
    bytes_per_second: what each broker copies at most; 0 for no limit.
    """

    name: str
    source: tuple[tuple[str, int], ...]
    topics: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    groups: str | None = ".*"
    acls: bool = True
    configs: bool = True
    interval_ms: int = DEFAULT_INTERVAL_MS
    bytes_per_second: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)

    def selects(self, topic: str) -> bool:
        """Whether the link mirrors a topic of this name."""
        if topic.startswith("__") or topic == LINK_TOPIC:
            return False
        if any(re.fullmatch(pattern, topic) for pattern in self.excludes):
            return False
        return topic in self.topics or any(re.fullmatch(pattern, topic) for pattern in self.patterns)

    def selects_group(self, group: str) -> bool:
        """Whether the offsets of a group come along."""
        return self.groups is not None and re.fullmatch(self.groups, group) is not None

    @property
    def security_protocol(self) -> str:
        """How the source is reached."""
        return self.settings.get("security.protocol", "PLAINTEXT").upper()

    def shown(self) -> dict[str, Any]:
        """The definition for everybody's eyes."""
        return {
            "link": self.name,
            "source": [f"{host}:{port}" for host, port in self.source],
            "topics": list(self.topics),
            "patterns": list(self.patterns),
            "excludes": list(self.excludes),
            "groups": self.groups,
            "acls": self.acls,
            "configs": self.configs,
            "interval_ms": self.interval_ms,
            "bytes_per_second": self.bytes_per_second,
            "settings": {
                name: value if name in _PUBLIC_SETTINGS else HIDDEN
                for name, value in sorted(self.settings.items())
            },
        }


LINK_TOPIC: Final = "_ottla_links"
"""The compacted topic with the status of links, mirror topics and promotions, for everybody to read."""


def setting_of_link(name: str) -> str:
    """The name of the brokers' setting that has a link's definition."""
    return LINK_PREFIX + name


def links_of(cluster_values: Mapping[str, str]) -> dict[str, str]:
    """The definitions, as JSON by the links' names, among the dynamic settings of all brokers."""
    return {
        name[len(LINK_PREFIX) :]: value
        for name, value in cluster_values.items()
        if name.startswith(LINK_PREFIX)
    }


def check_name(name: str) -> None:
    """Raises InvalidLink."""
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_LENGTH:
        raise InvalidLink(
            f"a link's name has letters, digits, - and _ alone, {MAX_NAME_LENGTH} at most, not {name!r}"
        )


def parse_source(text: str) -> tuple[tuple[str, int], ...]:
    """Addresses as HOST:PORT, parted by commas. Raises InvalidLink."""
    found = []
    for each in text.split(","):
        match = _ADDRESS.fullmatch(each.strip())
        if match is None or not 0 < int(match["port"]) < 65_536:
            raise InvalidLink(f"{each.strip()!r} is no address of a source: HOST:PORT is expected")
        found.append((match["host"].strip("[]"), int(match["port"])))
    return tuple(found)


def encode_definition(link: LinkDefinition) -> str:
    """The JSON of the setting. Raises InvalidLink for one that is too large."""
    text = json.dumps(
        {
            "source": ",".join(f"{host}:{port}" for host, port in link.source),
            "topics": list(link.topics),
            "patterns": list(link.patterns),
            "excludes": list(link.excludes),
            "groups": link.groups,
            "acls": link.acls,
            "configs": link.configs,
            "interval_ms": link.interval_ms,
            "bytes_per_second": link.bytes_per_second,
            "settings": dict(link.settings),
        },
        separators=(",", ":"),
    )
    if len(text.encode()) > MAX_DEFINITION_BYTES:
        raise InvalidLink(f"the definition is larger than {MAX_DEFINITION_BYTES} bytes")
    return text


def decode_definition(name: str, text: str) -> LinkDefinition:
    """The link of a setting's JSON. Raises InvalidLink."""
    check_name(name)
    if len(text.encode()) > MAX_DEFINITION_BYTES:
        raise InvalidLink(f"the definition is larger than {MAX_DEFINITION_BYTES} bytes")
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidLink(f"the definition is no JSON: {problem}") from None
    if not isinstance(given, dict):
        raise InvalidLink("the definition is no JSON object")
    unknown = given.keys() - _KEYS
    if unknown:
        raise InvalidLink(f"the definition has unknown keys: {', '.join(sorted(unknown))}")
    groups = given.get("groups", ".*")
    link = LinkDefinition(
        name=name,
        source=parse_source(_text(given, "source")),
        topics=_texts(given, "topics"),
        patterns=_texts(given, "patterns"),
        excludes=_texts(given, "excludes"),
        groups=None if groups is None else _text({"groups": groups}, "groups"),
        acls=_flag(given, "acls"),
        configs=_flag(given, "configs"),
        interval_ms=_number(given, "interval_ms", DEFAULT_INTERVAL_MS, MIN_INTERVAL_MS, MAX_INTERVAL_MS),
        bytes_per_second=_number(given, "bytes_per_second", 0, 0, MAX_BYTES_PER_SECOND),
        settings=_settings(given),
    )
    for pattern in (*link.patterns, *link.excludes, *([] if link.groups is None else [link.groups])):
        _check_pattern(pattern)
    if not link.topics and not link.patterns:
        raise InvalidLink("the link has no topics: name some, or give a pattern")
    if link.security_protocol not in SECURITY_PROTOCOLS:
        raise InvalidLink(
            f"security.protocol {link.security_protocol} is not one of {', '.join(SECURITY_PROTOCOLS)}"
        )
    return link


_KEYS: Final = frozenset(
    {
        "source",
        "topics",
        "patterns",
        "excludes",
        "groups",
        "acls",
        "configs",
        "interval_ms",
        "bytes_per_second",
        "settings",
    }
)


def _check_pattern(pattern: str) -> None:
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise InvalidLink(f"a pattern is longer than {MAX_PATTERN_LENGTH} characters")
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as problem:
        raise InvalidLink(f"{pattern!r} is no regular expression: {problem}") from None


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidLink(f"{key} has to be a text")
    return value


def _texts(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key, [])
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise InvalidLink(f"{key} has to be a list of texts")
    return tuple(value)


def _flag(given: Mapping[str, Any], key: str) -> bool:
    value = given.get(key, True)
    if not isinstance(value, bool):
        raise InvalidLink(f"{key} has to be true or false")
    return value


def _number(given: Mapping[str, Any], key: str, default: int, least: int, most: int) -> int:
    value = given.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidLink(f"{key} has to be a whole number")
    if not least <= value <= most:
        raise InvalidLink(f"{key} has to be from {least} to {most}")
    return value


def _settings(given: Mapping[str, Any]) -> dict[str, str]:
    value = given.get("settings", {})
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise InvalidLink("settings have to be texts")
    strange = sorted(name for name in value if not name.startswith(_SETTING_PREFIXES))
    if strange:
        raise InvalidLink(f"a link has settings of security alone, not {', '.join(strange[:5])}")
    return value
