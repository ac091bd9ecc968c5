"""Functions of texts and bytes. Positions count from 1; lengths count characters (code points)."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
import struct
import unicodedata
import uuid
from collections.abc import Callable
from typing import Any

from ottla.sql.functions import java_regex
from ottla.sql.functions.function import ScalarFunction, Variant, on, scalar

MAX_TEXT = 16 * 1024 * 1024


def _start(length: int, position: int) -> int:
    """The index of a position: from 1, or from the end where it is negative."""
    return max(length + position, 0) if position < 0 else max(min(position - 1, length), 0)


def _part(value: Any, position: int, length: int | None = None) -> Any:
    begin = _start(len(value), position)
    return value[begin:] if length is None else value[begin : max(begin + length, begin)]


def _pad(left: bool) -> Callable[[Any, int, Any], Any]:
    def padded(value: Any, length: int, padding: Any) -> Any:
        if length < 0 or not padding:
            return None
        if length > MAX_TEXT:
            raise ValueError(f"a text is padded to at most {MAX_TEXT:,}")
        missing = max(length - len(value), 0)
        added = (padding * (missing // len(padding) + 1))[:missing]
        return (added + value if left else value + added)[:length]

    return padded


def _concat(empty: Any) -> Callable[..., Any]:
    return lambda *values: empty.join(each for each in values if each is not None)


def _concat_with(separator: Any, *values: Any) -> Any:
    return None if separator is None else separator.join(each for each in values if each is not None)


def _find(text: str, part: str, position: int = 1, occurrence: int = 1) -> int:
    """INSTR: from a position on, or backwards from one counted from the end; 0 if it is not there."""
    if position == 0 or occurrence < 1:
        return 0
    found = position - 2 if position > 0 else len(text) + position + 1
    for _ in range(occurrence):
        if position > 0:
            found = text.find(part, found + 1)
        else:
            found = text.rfind(part, 0, found - 1 + len(part)) if found > 0 else -1
        if found < 0:
            return 0
    return found + 1


def _initcap(text: str) -> str:
    return re.sub(r"(^|\s)(\S)", lambda found: found[1] + found[2].upper(), text.lower())


def _character(code: int) -> str | None:
    return chr(code) if 0 <= code < 0x110000 and not 0xD800 <= code < 0xE000 else None


def _character_of(text: str) -> str | None:
    if not (found := re.fullmatch(r"((?:\\u[0-9a-fA-F]{4}){1,2})", text)):
        return None
    units = bytes.fromhex(found[1].replace("\\u", ""))
    try:
        decoded = units.decode("utf-16-be")
    except UnicodeDecodeError:
        return None
    return decoded if len(decoded) == 1 else None


def _trim(text: str) -> str:
    """Without the characters up to the space at both ends, as Java trims."""
    return text.strip("".join(map(chr, range(33))))


def _split(text: str, delimiter: str) -> list[str]:
    return list(text) if not delimiter else text.split(delimiter)


def _split_bytes(value: bytes, delimiter: bytes) -> list[bytes]:
    return [value[each : each + 1] for each in range(len(value))] if not delimiter else value.split(delimiter)


def _split_to_map(text: str | None, entries: str | None, pair: str | None) -> dict[str, str] | None:
    if text is None or entries is None or pair is None:
        return None
    if not entries or not pair or entries == pair:
        return None
    found = [each.split(pair, 1) for each in text.split(entries) if each]
    return {each[0]: each[1] for each in found if len(each) == 2}


# Masks

_KINDS = ("X", "x", "n", "-")


def _masked(text: str, masks: tuple[str | None, ...]) -> str:
    upper, lower, digit, other = (given[:1] if given else given for given in (*masks, *_KINDS[len(masks) :]))

    def of(each: str) -> str:
        kind = unicodedata.category(each)
        mask = upper if kind == "Lu" else lower if kind == "Ll" else digit if kind == "Nd" else other
        return each if mask is None else mask

    return "".join(map(of, text))


def _mask(text: str | None, *masks: str | None) -> str | None:
    return None if text is None else _masked(text, masks)


def _mask_part(left: bool, inside: bool) -> Callable[..., str | None]:
    """MASK_LEFT and the others: which end the number counts from, and whether what it counts is masked."""

    def masked(text: str | None, number: int | None, *masks: str | None) -> str | None:
        if text is None or number is None:
            return None
        if number < 0:
            raise ValueError("the number of characters is not negative")
        at = min(number, len(text)) if left else max(len(text) - number, 0)
        first, second = text[:at], text[at:]
        return (_masked(first, masks) + second) if left is inside else (first + _masked(second, masks))

    return masked


def _masks(prefix: str) -> tuple[str, ...]:
    return tuple(f"({prefix}{', STRING' * count}) -> STRING" for count in (0, 4))


def _masking(name: str, summary: str, evaluate: Callable[..., str | None], prefix: str) -> ScalarFunction:
    return scalar(
        name, summary, *(on(each, evaluate, nulls=True) for each in _masks(prefix)), group="strings"
    )


# Encodings


def _bytes_of(text: str, encoding: str) -> bytes:
    match encoding.lower():
        case "hex":
            digits = (
                text[2:] if text[:2] in ("0x", "0X") else text[2:-1] if text[:2] in ("x'", "X'") else text
            )
            return binascii.unhexlify(digits if len(digits) % 2 == 0 else "0" + digits)
        case "utf8" | "utf-8":
            return text.encode()
        case "ascii":
            return text.encode("ascii", "replace")
        case "base64":
            return base64.b64decode(text, validate=True)
    raise ValueError(f"the encodings are hex, utf8, ascii and base64, not {encoding}")


def _text_of(value: bytes, encoding: str) -> str:
    match encoding.lower():
        case "hex":
            return value.hex().upper()
        case "utf8" | "utf-8":
            return value.decode("utf-8", "replace")
        case "ascii":
            return value.decode("ascii", "replace")
        case "base64":
            return base64.b64encode(value).decode()
    raise ValueError(f"the encodings are hex, utf8, ascii and base64, not {encoding}")


def _encode(text: str, given: str, wanted: str) -> str:
    found = _text_of(_bytes_of(text, given), wanted)
    return found.lower() if wanted.lower() == "hex" else found


def _number_from(form: str) -> Callable[..., Any]:
    size = struct.calcsize(form)

    def number(value: bytes, order: str = "BIG_ENDIAN") -> Any:
        if len(value) != size:
            raise ValueError(f"{size} bytes are wanted, there are {len(value)}")
        if order.upper() not in ("BIG_ENDIAN", "LITTLE_ENDIAN"):
            raise ValueError(f"the byte order is BIG_ENDIAN or LITTLE_ENDIAN, not {order}")
        return struct.unpack((">" if order.upper() == "BIG_ENDIAN" else "<") + form, value)[0]

    return number


def _from_bytes(name: str, summary: str, form: str, result: str) -> ScalarFunction:
    number = _number_from(form)
    return scalar(
        name,
        summary,
        on(f"(BYTES) -> {result}", number),
        on(f"(BYTES, STRING) -> {result}", number),
        group="bytes",
    )


def _group(found: re.Match[str], number: int) -> str | None:
    return found[number] if number <= (found.re.groups or 0) else None


def _extract(pattern: str, text: str, number: int = 0) -> str | None:
    found = java_regex.compiled(pattern).search(text)
    return None if found is None else _group(found, number)


def _extract_all(pattern: str, text: str, number: int = 0) -> list[str | None] | None:
    compiled = java_regex.compiled(pattern)
    if number > compiled.groups:
        return None
    return [_group(found, number) for found in compiled.finditer(text)]


def _both(types: str, evaluate: Callable[..., Any], nulls: bool = False) -> tuple[Variant, ...]:
    """The same for texts and for bytes."""
    return (
        on(types, evaluate, nulls=nulls),
        on(types.replace("STRING", "BYTES"), evaluate, nulls=nulls),
    )


def _strings(name: str, summary: str, *variants: Variant, stable: bool = True) -> ScalarFunction:
    return scalar(name, summary, *variants, group="strings", stable=stable)


STRINGS = (
    _strings(
        "CHR",
        "the character of a code point",
        on("(INT) -> STRING", _character),
        on("(STRING) -> STRING", _character_of),
    ),
    _strings(
        "CONCAT",
        "texts or bytes one after the other, without NULLs",
        on("(STRING, STRING...) -> STRING", _concat(""), nulls=True),
        on("(BYTES, BYTES...) -> BYTES", _concat(b""), nulls=True),
    ),
    _strings(
        "CONCAT_WS",
        "the same with a separator between them",
        *_both("(STRING, STRING, STRING...) -> STRING", _concat_with, nulls=True),
    ),
    _strings(
        "ENCODE",
        "a text from one encoding in another: hex, utf8, ascii, base64",
        on("(STRING, STRING, STRING) -> STRING", _encode),
    ),
    _strings("FROM_BYTES", "bytes as a text of an encoding", on("(BYTES, STRING) -> STRING", _text_of)),
    _strings("INITCAP", "the first letter of each word in upper case", on("(STRING) -> STRING", _initcap)),
    _strings(
        "INSTR",
        "the position of a text in another one, 0 if it is not there",
        on("(STRING, STRING) -> INT", _find),
        on("(STRING, STRING, INT) -> INT", _find),
        on("(STRING, STRING, INT, INT) -> INT", _find),
    ),
    _strings("LCASE", "in lower case", on("(STRING) -> STRING", str.lower)),
    _strings(
        "LEN",
        "the number of characters, or of bytes",
        on("(STRING) -> INT", len),
        on("(BYTES) -> INT", len),
    ),
    _strings(
        "LPAD", "filled up from the left to a length", *_both("(STRING, INT, STRING) -> STRING", _pad(True))
    ),
    _masking("MASK", "letters and digits replaced", _mask, "STRING"),
    _masking("MASK_KEEP_LEFT", "all but the first characters masked", _mask_part(True, False), "STRING, INT"),
    _masking("MASK_KEEP_RIGHT", "all but the last ones masked", _mask_part(False, False), "STRING, INT"),
    _masking("MASK_LEFT", "the first characters masked", _mask_part(True, True), "STRING, INT"),
    _masking("MASK_RIGHT", "the last characters masked", _mask_part(False, True), "STRING, INT"),
    _strings(
        "MD5",
        "the MD5 hash in hex",
        on("(STRING) -> STRING", lambda text: hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()),
    ),
    _strings(
        "REPLACE",
        "all of a text replaced by another",
        on("(STRING, STRING, STRING) -> STRING", str.replace),
    ),
    _strings(
        "REGEXP_EXTRACT",
        "the first match, or a group of it",
        on("(STRING, STRING) -> STRING", _extract),
        on("(STRING, STRING, INT) -> STRING", _extract),
    ),
    _strings(
        "REGEXP_EXTRACT_ALL",
        "all matches, or a group of each",
        on("(STRING, STRING) -> ARRAY<STRING>", _extract_all),
        on("(STRING, STRING, INT) -> ARRAY<STRING>", _extract_all),
    ),
    _strings(
        "REGEXP_REPLACE",
        "all matches replaced",
        on("(STRING, STRING, STRING) -> STRING", java_regex.replaced),
    ),
    _strings(
        "REGEXP_SPLIT_TO_ARRAY",
        "the parts between the matches",
        on("(STRING, STRING) -> ARRAY<STRING>", java_regex.split),
    ),
    _strings(
        "RPAD", "filled up at the right to a length", *_both("(STRING, INT, STRING) -> STRING", _pad(False))
    ),
    _strings(
        "SPLIT",
        "the parts between delimiters",
        on("(STRING, STRING) -> ARRAY<STRING>", _split),
        on("(BYTES, BYTES) -> ARRAY<BYTES>", _split_bytes),
    ),
    _strings(
        "SPLIT_TO_MAP",
        "pairs of key and value as a map",
        on("(STRING, STRING, STRING) -> MAP<STRING, STRING>", _split_to_map, nulls=True),
    ),
    _strings(
        "SUBSTRING",
        "the part from a position, with a length or to the end",
        *_both("(STRING, INT) -> STRING", _part),
        *_both("(STRING, INT, INT) -> STRING", _part),
    ),
    scalar(
        "TO_BYTES",
        "a text of an encoding as bytes",
        on("(STRING, STRING) -> BYTES", _bytes_of),
        group="bytes",
    ),
    _strings("TRIM", "without spaces at both ends", on("(STRING) -> STRING", _trim)),
    _strings("UCASE", "in upper case", on("(STRING) -> STRING", str.upper)),
    _strings("UUID", "a new random UUID", on("() -> STRING", lambda: str(uuid.uuid4())), stable=False),
    _from_bytes("BIGINT_FROM_BYTES", "8 bytes as a BIGINT", "q", "BIGINT"),
    _from_bytes("DOUBLE_FROM_BYTES", "8 bytes as a DOUBLE", "d", "DOUBLE"),
    _from_bytes("INT_FROM_BYTES", "4 bytes as an INT", "i", "INT"),
)
