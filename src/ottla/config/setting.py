"""One setting: its name, type, default, documentation, importance, allowed values and how it may be changed.

Settings stand in tables (`Table`), one for each program or resource: the broker's and its topics', the
services', later those of connectors. Texts become values by the rules of Apache Kafka's ConfigDef, which
Confluent's services and connectors use as well, so that a properties file written for them means the same
here. Names, types, defaults and limits are those of the originals; the sentences are ours.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

from ottla.config.unsupported import Unsupported, find_unsupported
from ottla.config.validators import Check

T = TypeVar("T")
U = TypeVar("U")
E = TypeVar("E", bound=enum.StrEnum)

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1
MAX_DOUBLE: Final = 1.7976931348623157e308
HIDDEN: Final = "[hidden]"
"""Shown in place of a password, as by Kafka."""

# The characters that Java's String.trim() takes off, and those that its regular expressions call space.
_TRIMMED: Final = "".join(map(chr, range(0x21)))
_SPACE: Final = " \t\n\v\f\r"
_MAX_DIGITS: Final = 40


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


class Importance(enum.Enum):
    """How likely it is that a user needs the setting, as Kafka ranks it."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class UpdateMode(enum.Enum):
    """Whether a broker's setting may be changed while it runs, and for which brokers at once."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE
PER_BROKER: Final = UpdateMode.PER_BROKER


class InvalidValue(ValueError):
    """A value that its setting does not allow. The text names the setting, the value and what is allowed."""

    def __init__(self, name: str, value: object, problem: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {name}: {problem}")
        self.name = name
        self.value = value
        self.problem = problem


# Plain classes, as in validators: hundreds of settings are made at every start, and a frozen dataclass takes
# five times as long for each.


class Password:
    """A secret text. Printed, it is `[hidden]`."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)

    def __repr__(self) -> str:
        return HIDDEN


class Setting(Generic[T]):
    """One setting whose parsed values are of type T; `Kind` makes them. It never changes.

    check: what is allowed beyond the type. internal: left out of documentation.
    """

    __slots__ = ("check", "default", "doc", "importance", "internal", "kind", "name", "update")

    def __init__(
        self,
        name: str,
        kind: Kind[Any],
        default: T,
        doc: str,
        check: Check | None = None,
        importance: Importance = Importance.MEDIUM,
        update: UpdateMode = UpdateMode.READ_ONLY,
        internal: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.doc = doc
        self.check = check
        self.importance = importance
        self.update = update
        self.internal = internal

    def __repr__(self) -> str:
        return f"Setting({self.name!r})"

    @property
    def type(self) -> ConfigType:
        """The type that admin clients are told."""
        return self.kind.type

    @property
    def sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.kind.type is ConfigType.PASSWORD

    @property
    def allowed(self) -> str:
        """The allowed values, in words for a reference page; empty where the type says all."""
        return self.kind.allowed or ("" if self.check is None else self.check.allowed)

    def parse(self, text: str) -> T:
        """The value that `text` stands for. Raises InvalidValue."""
        try:
            value = self.kind.read(text.strip(_TRIMMED))
        except ValueError as problem:
            raise InvalidValue(self.name, HIDDEN if self.sensitive else text, str(problem)) from None
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


class Table:
    """The settings of one program or resource.

    title: the program or resource. settings: by name. prefixes: other names that begin so are passed on to a
    client or plugin. variables: how environment variables begin that give settings. other_variables: those
    that begin so and are for somebody else. base_name: gives the name of the setting that a name stands for,
    where they differ. unsupported: settings of the original that the program does not have.
    """

    __slots__ = (
        "_base_name",
        "other_variables",
        "prefixes",
        "settings",
        "title",
        "unsupported",
        "variables",
    )

    def __init__(
        self,
        title: str,
        settings: Mapping[str, Setting[Any]],
        *,
        prefixes: tuple[str, ...] = (),
        variables: str = "",
        other_variables: Collection[str] = (),
        base_name: Callable[[str], str] | None = None,
        unsupported: Mapping[str, Unsupported] | None = None,
    ) -> None:
        self.title = title
        self.settings = settings
        self.prefixes = prefixes
        self.variables = variables
        self.other_variables = frozenset(other_variables)
        self._base_name = base_name
        self.unsupported = unsupported or {}

    def find(self, name: str) -> Setting[Any] | None:
        """The setting of this name."""
        return self.settings.get(name if self._base_name is None else self._base_name(name))

    def find_unsupported(self, name: str) -> Unsupported | None:
        """The entry of a name that is no setting of the table, but one of the original."""
        if not self.unsupported or name in self.settings:
            return None
        return find_unsupported(self.unsupported, name)


def by_name(values: Iterable[object]) -> dict[str, Setting[Any]]:
    """The settings among some values (a module's, say) by name, sorted."""
    found = {value.name: value for value in values if isinstance(value, Setting)}
    return dict(sorted(found.items()))


# -- texts to values and back -----------------------------------------------------------------------


def _read_boolean(text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("Expected value to be either true or false")


def _integer_reader(type_name: str, bits: int) -> Callable[[str], int]:
    limit = 1 << (bits - 1)

    def read(text: str) -> int:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isdecimal() and len(digits) <= _MAX_DIGITS and -limit <= int(text) < limit):
            raise ValueError(f"Not a number of type {type_name}")
        return int(text)

    return read


_DOUBLE: Final = r"([+-]?(?:Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?"


def _read_double(text: str) -> float:
    """A number in Java's notation, but neither hexadecimal nor NaN, which passes every check of a range."""
    found = re.fullmatch(_DOUBLE, text)
    if found is None:
        raise ValueError("Not a number of type DOUBLE")
    return float(found[1])


def _read_items(text: str) -> tuple[str, ...]:
    """Comma-separated items, trimmed; an empty text is an empty list."""
    return tuple(item.strip(_SPACE) for item in text.split(",")) if text else ()


def _read_list(text: str) -> tuple[str, ...]:
    """The items, each once."""
    return tuple(dict.fromkeys(_read_items(text)))


def _format_double(value: float) -> str:
    """The number as Java's Double.toString prints it."""
    sign = "-" if value < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(digits) - len(fraction) - 1
    digits = digits.rstrip("0")
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"


# -- kinds of settings ------------------------------------------------------------------------------


class Kind(Generic[U]):
    """Makes settings of one type: `integer("num.partitions", 1, "…", at_least(1))`.

    read: turns a trimmed text into a value, raises ValueError with the problem. allowed: the texts that it
    takes, in words, where the type does not say it.
    """

    __slots__ = ("allowed", "read", "type")

    def __init__(self, type: ConfigType, read: Callable[[str], U], allowed: str = "") -> None:
        self.type = type
        self.read = read
        self.allowed = allowed

    def __call__(
        self,
        name: str,
        default: U,
        doc: str,
        check: Check | None = None,
        *,
        importance: Importance = MEDIUM,
        update: UpdateMode = UpdateMode.READ_ONLY,
        internal: bool = False,
    ) -> Setting[U]:
        return Setting(name, self, default, doc, check, importance, update, internal)

    def optional(
        self,
        name: str,
        doc: str,
        check: Check | None = None,
        *,
        importance: Importance = MEDIUM,
        update: UpdateMode = UpdateMode.READ_ONLY,
        internal: bool = False,
    ) -> Setting[U | None]:
        """A setting that has no value unless one is given."""
        return Setting(name, self, None, doc, check, importance, update, internal)


boolean: Final = Kind[bool](ConfigType.BOOLEAN, _read_boolean)
string: Final = Kind[str](ConfigType.STRING, str)
integer: Final = Kind[int](ConfigType.INT, _integer_reader("INT", 32))
short: Final = Kind[int](ConfigType.SHORT, _integer_reader("SHORT", 16))
long: Final = Kind[int](ConfigType.LONG, _integer_reader("LONG", 64))
double: Final = Kind[float](ConfigType.DOUBLE, _read_double)
string_list: Final = Kind[tuple[str, ...]](ConfigType.LIST, _read_list)
repeating_list: Final = Kind[tuple[str, ...]](ConfigType.LIST, _read_items)
"""A list that keeps repeated items; Kafka has few of them."""
class_name: Final = Kind[str](ConfigType.CLASS, str)
password: Final = Kind[Password](ConfigType.PASSWORD, Password)
text_or_none: Final = Kind[str | None](ConfigType.STRING, lambda text: text or None)
"""A text whose empty value is the same as none."""


def choice(members: type[E]) -> Kind[E]:
    """The kind whose values are an enumeration's; texts are in upper or lower case."""
    by_text = {member.upper(): member for member in members}
    words = ", ".join(members)

    def read(text: str) -> E:
        try:
            return by_text[text.upper()]
        except KeyError:
            raise ValueError(f"String must be one of (case insensitive): {words}") from None

    return Kind(ConfigType.STRING, read, f"one of {words} (in any case)")
