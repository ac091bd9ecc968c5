"""column.mask.*, column.truncate.*, *.propagate.source.type: what becomes of values and schemas; no I/O.

As Debezium 3.6.1's ColumnMappers: the first rule that matches a column holds, truncations before masks before
propagations before hashes; keys are left as they are. What the database did not send stays the placeholder,
which a hash or a cut would hide.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.connect.cdc.core.column_form import ColumnForm
from ottla.connect.cdc.core.filters import NameFilter

MASK: Final = "column.mask."
TRUNCATE: Final = "column.truncate."
COLUMN_TYPES: Final = "column.propagate.source.type"
DATA_TYPES: Final = "datatype.propagate.source.type"
MAX_CHARACTERS: Final = 1_000_000_000
_TRUNCATED: Final = re.compile(r"to\.(\d{1,10})\.chars")
_MASKED: Final = re.compile(r"with\.(\d{1,10})\.chars")
_HASHED: Final = re.compile(r"hash\.(v2\.)?([^.]+)\.with\.salt\.(.+)")
_SOURCE: Final = "__debezium.source.column."
_JAVA_STRING: Final = b"\xac\xed\x00\x05"
_ALGORITHMS: Final = {
    "MD5": "md5",
    "SHA": "sha1",
    "SHA-1": "sha1",
    "SHA-224": "sha224",
    "SHA-256": "sha256",
    "SHA-384": "sha384",
    "SHA-512": "sha512",
    "SHA3-224": "sha3_224",
    "SHA3-256": "sha3_256",
    "SHA3-384": "sha3_384",
    "SHA3-512": "sha3_512",
}
"""Java's names, and Python's."""


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column of the database. length: as JDBC tells it; is_text: of JDBC's types of characters."""

    table: str
    name: str
    type_name: str
    length: int
    scale: int | None
    is_text: bool


@dataclass(frozen=True, slots=True)
class Truncation:
    """Texts and bytes are cut behind so many."""

    length: int


@dataclass(frozen=True, slots=True)
class Mask:
    """Texts are replaced by so many asterisks, null too."""

    length: int


@dataclass(frozen=True, slots=True)
class Hash:
    """Texts are replaced by a hash's digits, cut at the column's length. serializes: of Java's string."""

    algorithm: str
    salt: str
    serializes: bool


@dataclass(frozen=True, slots=True)
class Propagation:
    """The schema says the column's name and type."""


Rule = Truncation | Mask | Hash | Propagation


@dataclass(frozen=True, slots=True)
class _Matched:
    rule: Rule
    names: NameFilter
    by_type: bool = False


@dataclass(frozen=True, slots=True)
class MappedColumn:
    """What a rule makes of a column's form. null: what stands for NULL where the column may be null."""

    form: ColumnForm
    null: Any = None


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """The rules of a connector, in the order in which they are looked at."""

    rules: tuple[_Matched, ...] = ()

    def apply(self, column: ColumnFacts, form: ColumnForm) -> MappedColumn:
        """The column's form as its rule makes it."""
        for each in self.rules:
            name = column.type_name if each.by_type else column.name
            if each.names.takes(f"{column.table}.{name}"):
                return _applied(each.rule, column, form)
        return MappedColumn(form)


def column_rules(
    masks: Mapping[str, str],
    truncations: Mapping[str, str],
    column_types: str | None,
    data_types: str | None,
) -> ColumnRules:
    """The rules of the settings behind `column.mask.` and `column.truncate.`, and of the two others.

    Raises ValueError, which names the setting.
    """
    cuts: list[_Matched] = []
    stars: list[_Matched] = []
    hashes: list[_Matched] = []
    for name, text in sorted(truncations.items()):
        cuts.append(
            _Matched(Truncation(_count(TRUNCATE, name, _TRUNCATED, 1)), _names(TRUNCATE + name, text))
        )
    for name, text in sorted(masks.items()):
        names = _names(MASK + name, text)
        hashed = _HASHED.fullmatch(name)
        if hashed is None:
            stars.append(_Matched(Mask(_count(MASK, name, _MASKED, 0)), names))
            continue
        algorithm = _ALGORITHMS.get(hashed[2].upper())
        if algorithm is None:
            raise ValueError(f"{MASK}{hashed[1] or ''}{hashed[2]}…: no such hash: {', '.join(_ALGORITHMS)}")
        hashes.append(_Matched(Hash(algorithm, hashed[3], hashed[1] is None), names))
    types = [
        _Matched(Propagation(), _names(setting, text), by_type)
        for setting, text, by_type in ((COLUMN_TYPES, column_types, False), (DATA_TYPES, data_types, True))
        if text
    ]
    return ColumnRules((*cuts, *stars, *types, *hashes))


def _names(setting: str, text: str) -> NameFilter:
    try:
        return NameFilter.of(text, None) if text.strip() else NameFilter(())
    except ValueError as wrong:
        raise ValueError(f"{setting}: {wrong}") from None


def _count(prefix: str, name: str, form: re.Pattern[str], least: int) -> int:
    found = form.fullmatch(name)
    count = -1 if found is None else int(found[1])
    if not least <= count <= MAX_CHARACTERS:
        raise ValueError(f"{prefix}{name}: there is no such setting")
    return count


def _applied(rule: Rule, column: ColumnFacts, form: ColumnForm) -> MappedColumn:
    match rule:
        case Truncation(length):
            if 0 <= column.length <= length:
                return MappedColumn(form)
            cut = _cut_behind(length)
            return MappedColumn(_with(form, {"truncateLength": str(length)}, lambda value: cut(value)))
        case Mask(length):
            mask = "*" * length
            masked = _with(form, {"masked": "true"})
            if not column.is_text:
                return MappedColumn(masked)
            return MappedColumn(
                replace(masked, convert=lambda _: mask, fallback=mask, unavailable=mask), null=mask
            )
        case Hash():
            if not column.is_text:
                return MappedColumn(_with(form, {"masked": "true"}))
            return MappedColumn(_with(form, {"masked": "true"}, _hasher(rule, column.length)))
        case Propagation():
            return MappedColumn(_with(form, _source_of(column)))


def _source_of(column: ColumnFacts) -> dict[str, str]:
    found = {f"{_SOURCE}type": column.type_name.upper(), f"{_SOURCE}length": str(column.length)}
    if column.scale is not None:
        found[f"{_SOURCE}scale"] = str(column.scale)
    return {**found, f"{_SOURCE}name": column.name}


def _with(
    form: ColumnForm, parameters: Mapping[str, str], change: Callable[[Any], Any] | None = None
) -> ColumnForm:
    schema = replace(form.schema, parameters={**(form.schema.parameters or {}), **parameters})
    if change is None:
        return replace(form, schema=schema)
    before = form.convert
    return replace(form, schema=schema, convert=lambda text: change(before(text)))


def _cut_behind(length: int) -> Callable[[Any], Any]:
    def cut(value: Any) -> Any:
        if isinstance(value, bytes):
            return value[:length]
        if isinstance(value, str):
            return _java_prefix(value, length)
        return value

    return cut


def _java_prefix(text: str, length: int) -> str:
    """The first characters as Java counts them, in UTF-16; a pair is not cut in two."""
    if len(text) <= length and text.isascii():
        return text
    prefix = text[:length]
    if prefix.isascii():
        return prefix
    return text.encode("utf-16-le")[: 2 * length].decode("utf-16-le", "ignore")


def _hasher(rule: Hash, length: int) -> Callable[[Any], str]:
    salt = rule.salt.encode()
    content = _java_serialized if rule.serializes else str.encode

    def digits(value: Any) -> str:
        found = hashlib.new(rule.algorithm, salt + content(str(value)), usedforsecurity=False).hexdigest()
        return found[:length] if length > 0 else found

    return digits


def _java_serialized(text: str) -> bytes:
    """A string as ObjectOutputStream writes it."""
    units = text.encode("utf-16-be", "surrogatepass")
    data = b"".join(_modified(unit) for unit in struct.unpack(f">{len(units) // 2}H", units))
    if len(data) < 1 << 16:
        return _JAVA_STRING + b"t" + struct.pack(">H", len(data)) + data
    return _JAVA_STRING + b"|" + struct.pack(">Q", len(data)) + data


def _modified(unit: int) -> bytes:
    """A UTF-16 unit in Java's modified UTF-8."""
    if 0 < unit < 0x80:
        return bytes((unit,))
    if unit < 0x800:
        return bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
    return bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
