"""The keys that every connector's configuration has: names, types, defaults and places are Connect's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.config.setting import (
    HIGH,
    LOW,
    boolean,
    class_name,
    integer,
    long,
    repeating_list,
    short,
    string,
)
from ottla.config.validators import OneOf, Rule, at_least
from ottla.connect.plugins.definition import Definition, Width
from ottla.connect.plugins.required import Required

COMMON: Final = "Common"
TRANSFORMS_GROUP: Final = "Transforms"
PREDICATES_GROUP: Final = "Predicates"
ERRORS: Final = "Error Handling"
TOPIC_CREATION: Final = "Topic Creation"
EXACTLY_ONCE: Final = "Exactly Once Support"
OFFSETS: Final = "offsets.topic"


def _name_problem(value: Any) -> str | None:
    if value is None:
        return None
    if not value:
        return "String may not be empty"
    control = [str(ord(each)) for each in value if ord(each) < 32 or ord(each) == 127]
    if control:
        codes = ", ".join(control)
        return f"String may not contain control sequences but had the following ASCII chars: {codes}"
    return None


def _regex_problem(value: Any) -> str | None:
    try:
        re.compile(value or "")
    except (re.error, RecursionError, OverflowError) as problem:
        return f"Invalid regex: {problem}"
    return None


def _alias_problem(value: Any) -> str | None:
    return "Duplicate alias provided." if value and len(set(value)) < len(value) else None


_ALIASES: Final = Rule("different aliases", _alias_problem)

NAME: Final = string.optional(
    "name",
    "The connector's name, which no other connector of this cluster has.",
    Required(Rule("a text without control characters", _name_problem)),
    importance=HIGH,
)
CLASS: Final = string.optional(
    "connector.class",
    "The connector's class: its whole name, its simple name, or that without Connector at its end.",
    Required(),
    importance=HIGH,
)
CLASS_VERSION: Final = string.optional("connector.plugin.version", "The version of the connector.")
TASKS_MAX: Final = integer(
    "tasks.max", 1, "The most tasks that the connector may have.", at_least(1), importance=HIGH
)
TASKS_MAX_ENFORCE: Final = boolean(
    "tasks.max.enforce",
    True,
    "Deprecated: whether a connector that makes more tasks than tasks.max fails. None here makes more.",
    importance=LOW,
)
KEY_CONVERTER: Final = class_name.optional(
    "key.converter", "The converter of keys; by default the worker's.", importance=LOW
)
KEY_CONVERTER_VERSION: Final = string.optional(
    "key.converter.plugin.version", "The version of the converter of keys.", importance=LOW
)
VALUE_CONVERTER: Final = class_name.optional(
    "value.converter", "The converter of values; by default the worker's.", importance=LOW
)
VALUE_CONVERTER_VERSION: Final = string.optional(
    "value.converter.plugin.version", "The version of the converter of values.", importance=LOW
)
HEADER_CONVERTER: Final = class_name.optional(
    "header.converter", "The converter of headers; by default the worker's.", importance=LOW
)
HEADER_CONVERTER_VERSION: Final = string.optional(
    "header.converter.plugin.version", "The version of the converter of headers.", importance=LOW
)
TRANSFORMS: Final = repeating_list(
    "transforms",
    (),
    "Aliases of the transforms, in the order in which they are applied.",
    _ALIASES,
    importance=LOW,
)
PREDICATES: Final = repeating_list(
    "predicates", (), "Aliases of the predicates that transforms may have.", _ALIASES, importance=LOW
)
RELOAD: Final = string(
    "config.action.reload",
    "restart",
    "Whether the connector is restarted when a value of a config provider expires. Those of files, "
    "directories and the environment never do, as with Kafka's workers.",
    OneOf(("none", "restart")),
    importance=LOW,
)
RETRY_TIMEOUT: Final = long(
    "errors.retry.timeout", 0, "How long, in milliseconds, a failed operation is tried again; -1: for ever."
)
RETRY_DELAY_MAX: Final = long(
    "errors.retry.delay.max.ms", 60_000, "The longest pause, in milliseconds, between two attempts."
)
TOLERANCE: Final = string(
    "errors.tolerance",
    "none",
    "Whether a record that can't be processed is left out (all), or ends the task (none).",
    OneOf(("none", "all")),
)
LOG_ENABLE: Final = boolean("errors.log.enable", False, "Whether each error is logged, a tolerated one too.")
LOG_MESSAGES: Final = boolean(
    "errors.log.include.messages",
    False,
    "Whether the log of an error tells the record.",
)
TOPICS: Final = repeating_list("topics", (), "The topics of a sink, with commas between.", importance=HIGH)
TOPICS_REGEX: Final = string(
    "topics.regex",
    "",
    "A regular expression for the names of a sink's topics, in place of topics.",
    Rule("a regular expression", _regex_problem),
    importance=HIGH,
)
DEAD_LETTERS: Final = string(
    "errors.deadletterqueue.topic.name", "", "The topic of records that can't be processed; empty: none."
)
DEAD_LETTER_REPLICAS: Final = short(
    "errors.deadletterqueue.topic.replication.factor", 3, "The replicas that this topic is made with."
)
DEAD_LETTER_HEADERS: Final = boolean(
    "errors.deadletterqueue.context.headers.enable",
    False,
    "Whether its records have headers __connect.errors.* that tell why.",
)
CREATION_GROUPS: Final = repeating_list(
    "topic.creation.groups",
    (),
    "Groups of settings for topics that it creates.",
    _ALIASES,
    importance=LOW,
)
EXACTLY_ONCE_SUPPORT: Final = string(
    "exactly.once.support",
    "requested",
    "Whether the connector is refused (required) where its records can't be written exactly once.",
    OneOf(("REQUIRED", "REQUESTED"), ignore_case=True),
)
BOUNDARY: Final = string(
    "transaction.boundary",
    "poll",
    "Where transactions of an exactly-once source end: after a batch, a time, or where the source says.",
    OneOf(("INTERVAL", "POLL", "CONNECTOR"), ignore_case=True),
)
BOUNDARY_INTERVAL: Final = long.optional(
    "transaction.boundary.interval.ms",
    "The length of transactions that end after a time; by default offset.flush.interval.ms of the worker.",
    at_least(0),
    importance=LOW,
)
OFFSETS_TOPIC: Final = string.optional(
    "offsets.storage.topic",
    "A topic of the connector's own for its offsets, in place of the worker's.",
    Rule("not empty", lambda value: "String must be non-empty" if value == "" else None),
    importance=LOW,
)
PREDICATE: Final = string.optional("predicate", "The alias of the predicate that decides.")
NEGATE: Final = boolean("negate", False, "Whether it is applied where the predicate does not hold.")
TYPE: Final = class_name.optional("type", "The class.", Required(), importance=HIGH)
PLUGIN_VERSION: Final = string.optional("plugin.version", "The version of the class.", importance=HIGH)

BASE: Final[tuple[Definition, ...]] = (
    Definition(NAME, COMMON, 1, Width.MEDIUM, "Connector name"),
    Definition(CLASS, COMMON, 2, Width.LONG, "Connector class"),
    Definition(CLASS_VERSION, COMMON, 3, Width.MEDIUM, "Connector version"),
    Definition(TASKS_MAX, COMMON, 4, Width.SHORT, "Tasks max"),
    Definition(TASKS_MAX_ENFORCE, COMMON, 5, Width.SHORT, "Enforce tasks max"),
    Definition(KEY_CONVERTER, COMMON, 6, Width.SHORT, "Key converter class"),
    Definition(KEY_CONVERTER_VERSION, COMMON, 7, Width.SHORT, "Key converter version"),
    Definition(VALUE_CONVERTER, COMMON, 8, Width.SHORT, "Value converter class"),
    Definition(VALUE_CONVERTER_VERSION, COMMON, 9, Width.SHORT, "Value converter version"),
    Definition(HEADER_CONVERTER, COMMON, 10, Width.SHORT, "Header converter class"),
    Definition(HEADER_CONVERTER_VERSION, COMMON, 11, Width.SHORT, "Header converter version"),
    Definition(TRANSFORMS, TRANSFORMS_GROUP, 12, Width.LONG, "Transforms"),
    Definition(PREDICATES, PREDICATES_GROUP, 13, Width.LONG, "Predicates"),
    Definition(RELOAD, COMMON, 14, Width.MEDIUM, "Reload Action"),
    Definition(RETRY_TIMEOUT, ERRORS, 1, Width.MEDIUM, "Retry Timeout for Errors"),
    Definition(RETRY_DELAY_MAX, ERRORS, 2, Width.MEDIUM, "Maximum Delay Between Retries for Errors"),
    Definition(TOLERANCE, ERRORS, 3, Width.SHORT, "Error Tolerance"),
    Definition(LOG_ENABLE, ERRORS, 4, Width.SHORT, "Log Errors"),
    Definition(LOG_MESSAGES, ERRORS, 5, Width.SHORT, "Log Error Details"),
)
"""The keys of sources and sinks, in the order in which Connect tells them."""
OF_SINKS: Final[tuple[Definition, ...]] = (
    Definition(TOPICS, COMMON, 4, Width.LONG, "Topics"),
    Definition(TOPICS_REGEX, COMMON, 4, Width.LONG, "Topics regex"),
    Definition(DEAD_LETTERS, ERRORS, 6, Width.MEDIUM, "Dead Letter Queue Topic Name"),
    Definition(DEAD_LETTER_REPLICAS, ERRORS, 7, Width.MEDIUM, "Dead Letter Queue Topic Replication Factor"),
    Definition(DEAD_LETTER_HEADERS, ERRORS, 8, Width.MEDIUM, "Enable Error Context Headers"),
)
OF_SOURCES: Final[tuple[Definition, ...]] = (
    Definition(CREATION_GROUPS, TOPIC_CREATION, 1, Width.LONG, "Topic Creation Groups"),
    Definition(EXACTLY_ONCE_SUPPORT, EXACTLY_ONCE, 2, Width.SHORT, "Exactly once support"),
    Definition(BOUNDARY, EXACTLY_ONCE, 3, Width.SHORT, "Transaction Boundary"),
    Definition(BOUNDARY_INTERVAL, EXACTLY_ONCE, 4, Width.SHORT, "Transaction boundary interval"),
    Definition(OFFSETS_TOPIC, OFFSETS, 1, Width.LONG, "Offsets topic"),
)
_SERIALIZATION: Final = "Serialization"
_SCHEMAS: Final = "Schemas"
OF_CONVERTERS: Final[Mapping[str, tuple[str | None, int, Width, str]]] = {
    "schemas.enable": (_SCHEMAS, 0, Width.MEDIUM, "Enable Schemas"),
    "schemas.cache.size": (_SCHEMAS, 1, Width.MEDIUM, "Schema Cache Size"),
    "schema.content": (_SCHEMAS, 2, Width.MEDIUM, "Schema Content"),
    "decimal.format": (_SERIALIZATION, 0, Width.MEDIUM, "Decimal Format"),
    "replace.null.with.default": (_SERIALIZATION, 1, Width.MEDIUM, "Replace null with default"),
    "converter.encoding": (None, -1, Width.MEDIUM, "Encoding"),
}
"""The places in forms of the keys that Kafka's converters have: group, order, width, name."""
CONVERTER_TYPE: Final = "converter.type"
CONVERTER_VERSIONS: Final[Mapping[str, str]] = {
    KEY_CONVERTER.name: KEY_CONVERTER_VERSION.name,
    VALUE_CONVERTER.name: VALUE_CONVERTER_VERSION.name,
    HEADER_CONVERTER.name: HEADER_CONVERTER_VERSION.name,
}
"""The key of a converter -> the key of its version."""
