"""Words of `ottla config` as values, and settings as it writes them: rows and explanations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.client.admin.configs import (
    ALL_BROKERS,
    Change,
    ConfigEntry,
    Operation,
    Resource,
    ResourceType,
    ValueType,
    own_source,
)
from ottla.config.errors import UsageError

if TYPE_CHECKING:
    from ottla.config.setting import Setting

TYPES: Final[Mapping[str, ResourceType]] = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "logger": ResourceType.BROKER_LOGGER,
    "group": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
DEFAULT: Final = "default"
"""Names all brokers, as `config set broker default …`."""
SENSITIVE: Final = "(sensitive)"
_CHANGE: Final = re.compile(r"(?P<name>[^=]*?)(?P<sign>[+-]?)=(?P<value>.*)", re.DOTALL)
_OPERATIONS: Final = {"": Operation.SET, "+": Operation.APPEND, "-": Operation.SUBTRACT}


def resource_of(kind: str, name: str) -> Resource:
    """The resource that a type and a name mean. Raises UsageError for a broker that is no number."""
    type_ = TYPES[kind]
    if type_ is ResourceType.BROKER and name == DEFAULT:
        return Resource(type_, ALL_BROKERS)
    numbered = type_ in (ResourceType.BROKER, ResourceType.BROKER_LOGGER)
    if numbered and not (name.isascii() and name.isdecimal() and int(name[:20]) < 2**31):
        words = f"{DEFAULT!r} for all brokers, or " if type_ is ResourceType.BROKER else ""
        raise UsageError(f"{kind} {name}: write {words}a broker's id")
    return Resource(type_, name)


def name_of(resource: Resource) -> str:
    """The name that a user gives the resource."""
    return resource.name or DEFAULT


def kind_of(resource: Resource) -> str:
    """The word that a user gives the resource's type."""
    return next(word for word, type_ in TYPES.items() if type_ is resource.type)


def is_own(resource: Resource, entry: ConfigEntry) -> bool:
    """Whether the value was set for this very resource."""
    return entry.source is own_source(resource)


def changes_of(words: Sequence[str]) -> list[Change]:
    """The changes that KEY=VALUE, KEY+=ITEM and KEY-=ITEM mean. Raises UsageError."""
    changes: list[Change] = []
    for word in words:
        found = _CHANGE.fullmatch(word)
        name = "" if found is None else found["name"].strip()
        if found is None or not name:
            raise UsageError(f"{word}: write KEY=VALUE, or KEY+=ITEM and KEY-=ITEM for a list")
        if any(one.name == name for one in changes):
            raise UsageError(f"{word}: {name} is given twice")
        changes.append(Change(name, _OPERATIONS[found["sign"]], found["value"]))
    return changes


class Documentation(NamedTuple):
    """What is to be known of a setting, whatever its value."""

    type: ValueType
    default: str | None
    text: str


def documented(resource: Resource, entries: Iterable[ConfigEntry]) -> dict[str, Documentation]:
    """Type, default and documentation of each setting: as the broker told, else of ottla's own tables."""
    found: dict[str, Documentation] = {}
    own: Mapping[str, Setting[Any]] | None = None
    for entry in entries:
        told = Documentation(entry.type, entry.default, entry.documentation or "")
        if told.type is ValueType.UNKNOWN or told.default is None or not told.text:
            own = _own_table(resource.type) if own is None else own
            if (setting := own.get(entry.name)) is not None:
                told = _completed(told, setting)
        found[entry.name] = told
    return found


def _completed(told: Documentation, setting: Setting[Any]) -> Documentation:
    return Documentation(
        ValueType(setting.type) if told.type is ValueType.UNKNOWN else told.type,
        setting.default_text if told.default is None and not setting.sensitive else told.default,
        told.text or setting.doc or "",
    )


def _own_table(type_: ResourceType) -> Mapping[str, Setting[Any]]:
    """Imported when a broker tells no documentation: tables of hundreds of settings."""
    match type_:
        case ResourceType.TOPIC:
            from ottla.core.settings.topic_settings import TOPIC_SETTINGS

            return TOPIC_SETTINGS
        case ResourceType.BROKER:
            from ottla.core.settings.broker_settings import BROKER_SETTINGS

            return BROKER_SETTINGS
        case ResourceType.GROUP:
            from ottla.core.settings.group_settings import GROUP_SETTINGS

            return GROUP_SETTINGS
        case ResourceType.CLIENT_METRICS:
            from ottla.core.settings.client_metrics_settings import CLIENT_METRICS_SETTINGS

            return CLIENT_METRICS_SETTINGS
        case ResourceType.BROKER_LOGGER:
            return {}


def config_row(resource: Resource, entry: ConfigEntry) -> dict[str, Any]:
    """A setting in a list."""
    return {
        "type": kind_of(resource),
        "resource": name_of(resource),
        "name": entry.name,
        "value": entry.value,
        "source": entry.source.words,
        "read_only": entry.read_only,
        "sensitive": entry.sensitive,
    }


def explanation(resource: Resource, entry: ConfigEntry, known: Documentation) -> dict[str, Any]:
    """A setting with everything that is known of it."""
    return {
        **config_row(resource, entry),
        "value_type": known.type.name.lower(),
        "default": known.default,
        "synonyms": [
            {"name": one.name, "value": one.value, "source": one.source.words} for one in entry.synonyms
        ],
        "documentation": known.text or None,
    }


def explained_facts(row: Mapping[str, Any]) -> dict[str, Any]:
    """An explanation for people."""
    hidden = row["sensitive"]
    synonyms = [
        f"{one['name']}={SENSITIVE if hidden else shown_value(one['value'])} ({one['source']})"
        for one in row["synonyms"]
    ]
    facts = {
        "setting": row["name"],
        "of": f"{row['type']} {row['resource']}",
        "value": SENSITIVE if hidden else shown_value(row["value"]),
        "source": row["source"],
        "default": shown_value(row["default"]),
        "type": row["value_type"] + (", read-only" if row["read_only"] else ""),
        "layers": "; ".join(synonyms),
        "documentation": row["documentation"] or "",
    }
    return {name: fact for name, fact in facts.items() if fact != ""}


def shown_value(value: str | None) -> str:
    """A value for people: one that is empty would not be seen."""
    return "-" if value is None else value or '""'
