"""Random configurations of Connect's transforms and predicates."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from support.connect.random_values import NAMES

KAFKA = "org.apache.kafka.connect.transforms"
Config = dict[str, str]
_PATTERNS = (
    "yyyy-MM-dd",
    "yyyyMMdd'T'HHmmss",
    "EEE, d MMM yyyy hh:mm:ss a zzz",
    "yy/D w W F u k K S",
    "G y MMMM EEEE XXX Z",
    "HH:mm:ss.SSS",
)
_REGEXES = (
    "(.*)-(.*)",
    "[a-z.&&[^q]]+",
    "(?<one>[A-Z]\\w+?)_(\\d{2})(\\d*+)",
    ".*",
    "x\\Q.\\Ey.z",
    "o?r.*(?:s|t)$",
)
_REPLACEMENTS = ("$0", "new", "$0-\\$", "a$0b$00")
_LITERALS = ("1", "300", "1.5", "x", "[1,2]", '{"a":1}', "true", "2026-01-31", "12:34:56.789Z", " ", "null")


def _names(source: random.Random, at_least: int = 1) -> list[str]:
    return source.sample([each for each in NAMES if ":" not in each], source.randint(at_least, 3))


def _maybe(source: random.Random, name: str, *texts: str) -> Config:
    return {name: source.choice(texts)} if source.random() < 0.5 else {}


def _null(source: random.Random) -> Config:
    return _maybe(source, "replace.null.with.default", "true", "false")


def _cast(source: random.Random) -> Config:
    types = ("int8", "INT16", "int32", "int64", "float32", "float64", "boolean", "string")
    if source.random() < 0.2:
        return {"spec": source.choice(types)} | _null(source)
    return {"spec": ",".join(f"{name}:{source.choice(types)}" for name in _names(source))} | _null(source)


def _insert(source: random.Random) -> Config:
    config: Config = {}
    for kind in ("topic", "partition", "offset", "timestamp"):
        if source.random() < 0.5:
            config[f"{kind}.field"] = source.choice(("new", "_", kind, "a")) + source.choice(("", "?", "!"))
    if source.random() < 0.5 or not config:
        config |= {"static.field": "static" + source.choice(("", "?", "!")), "static.value": "text"}
    return config | _null(source)


def _replace(source: random.Random) -> Config:
    config = _null(source)
    if source.random() < 0.5:
        config["exclude"] = ",".join(_names(source))
    if source.random() < 0.4:
        config["include"] = ",".join(_names(source))
    if source.random() < 0.5:
        config["renames"] = ",".join(
            f"{name}:{source.choice(('n', 'm', 'b'))}{at}" for at, name in enumerate(_names(source))
        )
    return config


def _mask(source: random.Random) -> Config:
    replacement = _maybe(source, "replacement", "5", "-1.5", "xyz", "1e2", "300")
    return {"fields": ",".join(_names(source))} | replacement | _null(source)


def _extract(source: random.Random) -> Config:
    if source.random() < 0.5:
        path = source.choice(("a.b", "`a.b`", "a.id", "b.`a.b`.c", "a.", "`d`e`", "id"))
        return {"field": path, "field.syntax.version": source.choice(("V2", "v2"))} | _null(source)
    return {"field": source.choice(NAMES)} | _null(source)


def _timestamps(source: random.Random) -> Config:
    target = source.choice(("string", "unix", "Date", "Time", "Timestamp"))
    config = {"target.type": target} | _null(source)
    config |= _maybe(source, "unix.precision", "nanoseconds", "microseconds", "milliseconds", "seconds")
    if source.random() < 0.8:
        config["field"] = source.choice(NAMES)
    if target == "string" or source.random() < 0.7:
        config["format"] = source.choice(_PATTERNS)
    return config


def _header_from(source: random.Random) -> Config:
    fields = _names(source)
    headers = [source.choice(("h", "k", "new")) for _ in fields]
    operation = source.choice(("move", "copy"))
    return {"fields": ",".join(fields), "headers": ",".join(headers), "operation": operation} | _null(source)


def _metadata(source: random.Random) -> Config:
    config = _maybe(source, "schema.name", "a.B") | _maybe(source, "schema.version", "7")
    return (config or {"schema.name": "c"}) | _null(source)


def _regex(source: random.Random) -> Config:
    return {"regex": source.choice(_REGEXES), "replacement": source.choice(_REPLACEMENTS)}


def _router(source: random.Random) -> Config:
    topic_format = _maybe(source, "topic.format", "${timestamp}", "t-${topic}-${topic}-${timestamp}$1")
    return topic_format | _maybe(source, "timestamp.format", *_PATTERNS)


SIDED: Mapping[str, Callable[[random.Random], Config]] = {
    "Cast": _cast,
    "ExtractField": _extract,
    "Flatten": lambda source: _maybe(source, "delimiter", "_", "", ".", "--"),
    "HeaderFrom": _header_from,
    "HoistField": lambda source: {"field": source.choice(("up", "a", "x y"))},
    "InsertField": _insert,
    "MaskField": _mask,
    "ReplaceField": _replace,
    "SetSchemaMetadata": _metadata,
    "TimestampConverter": _timestamps,
}
"""Transforms of keys or values, and how their configurations are made."""
OF_RECORDS: Mapping[str, Callable[[random.Random], Config]] = {
    "DropHeaders": lambda source: {"headers": ",".join(source.sample(("h", "k", "a"), source.randint(1, 2)))},
    "Filter": lambda source: {},
    "InsertHeader": lambda source: {"header": "h", "value.literal": source.choice(_LITERALS)},
    "RegexRouter": _regex,
    "TimestampRouter": _router,
    "ValueToKey": lambda source: {"fields": ",".join(_names(source))} | _null(source),
}
"""Transforms of whole records."""
PREDICATES: Mapping[str, Callable[[random.Random], Config]] = {
    "HasHeaderKey": lambda source: {"name": source.choice(("h", "k", "none"))},
    "RecordIsTombstone": lambda source: {},
    "TopicNameMatches": lambda source: {"pattern": source.choice(_REGEXES)},
}
"""The predicates."""


def transform_classes() -> dict[str, Callable[[random.Random], Config]]:
    """All transforms by their class names."""
    sided = {f"{KAFKA}.{name}${side}": made for name, made in SIDED.items() for side in ("Key", "Value")}
    return sided | {f"{KAFKA}.{name}": made for name, made in OF_RECORDS.items()}
