"""One configuration key: its type, default, allowed values and how it may be changed.

The tables of settings (`broker_settings`, `topic_settings`, `group_settings`, `client_metrics_settings`) are
made of these. Names, types, defaults and limits are Apache Kafka 4.3's, so that a `server.properties` written
for Kafka means the same here and DescribeConfigs shows what an admin client expects; the sentences are ours.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
U = TypeVar("U")

MAX_INT = 2**31 - 1
MAX_LONG = 2**63 - 1
MAX_DOUBLE = 1.7976931348623157e308


class ConfigType(enum.IntEnum):
    """A setting's type, numbered as in DescribeConfigs responses."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class UpdateMode(enum.Enum):
    """Whether a broker's setting may be changed while it runs, and for whom at once."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class InvalidValue(ValueError):
    """A value that its setting does not allow. The text names the setting, the value and what is allowed."""

    def __init__(self, name: str, value: object, problem: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {problem}")
        self.name = name
        self.value = value
        self.problem = problem


class Check(Protocol):
    """Says what is wrong with a parsed value, or None."""

    def __call__(self, value: Any, /) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Setting(Generic[T]):
    """One configuration key whose parsed values are of type T."""

    name: str
    type: ConfigType
    default: T
    doc: str
    check: Check | None = None
    update: UpdateMode = UpdateMode.READ_ONLY
    internal: bool = False
    nullable: bool = False

    @property
    def sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> T:
        """The value that `text` stands for. Raises InvalidValue."""
        try:
            value = _PARSERS[self.type](text.strip())
        except ValueError as problem:
            raise InvalidValue(self.name, text, str(problem)) from None
        self.validate(value)
        return value  # type: ignore[no-any-return]

    def validate(self, value: object) -> None:
        """Raises InvalidValue when the parsed `value` is not allowed."""
        problem = self.check(value) if self.check is not None else None
        if problem is not None:
            raise InvalidValue(self.name, self.format(value), problem)

    @property
    def default_text(self) -> str | None:
        """The default as an admin client sees it."""
        return self.format(self.default)

    def format(self, value: object) -> str | None:
        """A parsed value as an admin client sees it: lists with commas, numbers as Java prints them."""
        match value:
            case None:
                return None
            case bool():
                return "true" if value else "false"
            case float():
                return _format_double(value)
            case tuple():
                return ",".join(value)
            case _:
                return str(value)


class Config(Protocol):
    """Settings with the values that hold here and now: `config[broker_settings.NUM_PARTITIONS]`."""

    def __getitem__(self, setting: Setting[T], /) -> T: ...


def _parse_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("Expected value to be either true or false")


def _integer_parser(type_name: str, bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 40 and -limit <= int(text) < limit):
            raise ValueError(f"Not a number of type {type_name}")
        return int(text)

    return parse


def _parse_double(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise ValueError("Not a number of type DOUBLE")
    return value


def parse_list(text: str) -> tuple[str, ...]:
    """Comma-separated items, trimmed, each once; an empty text is an empty list."""
    text = text.strip()
    return tuple(dict.fromkeys(item.strip() for item in text.split(","))) if text else ()


def _format_double(value: float) -> str:
    text = repr(value)
    if "e" not in text:
        return text
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}E{int(exponent)}"


_PARSERS: dict[ConfigType, Callable[[str], Any]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: str,
    ConfigType.INT: _integer_parser("INT", 32),
    ConfigType.SHORT: _integer_parser("SHORT", 16),
    ConfigType.LONG: _integer_parser("LONG", 64),
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: parse_list,
    ConfigType.CLASS: str,
    ConfigType.PASSWORD: str,
}


# -- what is allowed --------------------------------------------------------------------------------


# Plain classes: they are made at every start, and a dataclass takes the start half a millisecond.


class Range:
    """A number between two limits, both included; a missing limit does not bind."""

    __slots__ = ("largest", "smallest")

    def __init__(self, smallest: float, largest: float | None = None) -> None:
        self.smallest = smallest
        self.largest = largest

    def __call__(self, value: Any, /) -> str | None:
        if value is None:
            return None
        if value < self.smallest:
            return f"Value must be at least {self.smallest}"
        if self.largest is not None and value > self.largest:
            return f"Value must be no more than {self.largest}"
        return None


class OneOf:
    """One of a few words."""

    __slots__ = ("ignore_case", "words")

    def __init__(self, words: tuple[str, ...], ignore_case: bool = False) -> None:
        self.words = words
        self.ignore_case = ignore_case

    def __call__(self, value: Any, /) -> str | None:
        known = value is not None and (
            value.upper() in (word.upper() for word in self.words)
            if self.ignore_case
            else value in self.words
        )
        if known:
            return None
        case = " (case insensitive)" if self.ignore_case else ""
        return f"String must be one of{case}: {', '.join(self.words)}"


class ListOf:
    """A list of any words or of the given ones, empty only if `empty` says so."""

    __slots__ = ("empty", "words")

    def __init__(self, words: tuple[str, ...] = (), empty: bool = True) -> None:
        self.words = words
        self.empty = empty

    def __call__(self, value: Any, /) -> str | None:
        if value is None:
            return None
        if not value:
            return None if self.empty else "The list must not be empty"
        if not all(value):
            return "The list must not have empty values"
        if self.words and not set(self.words).issuperset(value):
            return f"String must be one of: {', '.join(self.words)}"
        return None


def not_empty(value: Any, /) -> str | None:
    """Any string but an empty one."""
    return "String must be non-empty" if value == "" else None


# -- short ways to declare one ----------------------------------------------------------------------


class _Kind(Generic[U]):
    """Makes settings of one type: `integer("num.partitions", 1, "…", at_least(1))`."""

    __slots__ = ("type",)

    def __init__(self, type: ConfigType) -> None:
        self.type = type

    def __call__(
        self,
        name: str,
        default: U,
        doc: str,
        check: Check | None = None,
        *,
        update: UpdateMode = UpdateMode.READ_ONLY,
        internal: bool = False,
    ) -> Setting[U]:
        return Setting(name, self.type, default, doc, check, update, internal)

    def optional(
        self,
        name: str,
        doc: str,
        check: Check | None = None,
        *,
        update: UpdateMode = UpdateMode.READ_ONLY,
        internal: bool = False,
    ) -> Setting[U | None]:
        """A setting that has no value unless one is given."""
        return Setting(name, self.type, None, doc, check, update, internal, nullable=True)


boolean: _Kind[bool] = _Kind(ConfigType.BOOLEAN)
string: _Kind[str] = _Kind(ConfigType.STRING)
integer: _Kind[int] = _Kind(ConfigType.INT)
short: _Kind[int] = _Kind(ConfigType.SHORT)
long: _Kind[int] = _Kind(ConfigType.LONG)
double: _Kind[float] = _Kind(ConfigType.DOUBLE)
string_list: _Kind[tuple[str, ...]] = _Kind(ConfigType.LIST)
class_name: _Kind[str] = _Kind(ConfigType.CLASS)
password: _Kind[str] = _Kind(ConfigType.PASSWORD)

CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE
PER_BROKER = UpdateMode.PER_BROKER


def at_least(smallest: float) -> Range:
    """Allows numbers from `smallest` on."""
    return Range(smallest)


def between(smallest: float, largest: float) -> Range:
    """Allows numbers from `smallest` to `largest`."""
    return Range(smallest, largest)


def table(settings: Collection[object]) -> dict[str, Setting[Any]]:
    """The settings among a module's values, by name, sorted."""
    found = {value.name: value for value in settings if isinstance(value, Setting)}
    return dict(sorted(found.items()))
