"""The texts of MariaDB's character sets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla.connect.cdc.core.column_form import ConversionError

_CODECS: Final[Mapping[str, str]] = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "latin-1",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "koi8r": "koi8_r",
    "koi8u": "koi8_u",
    "sjis": "shift_jis",
    "cp932": "cp932",
    "ujis": "euc_jp",
    "eucjpms": "euc_jp",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "big5": "big5",
    "euckr": "euc_kr",
    "hebrew": "iso8859_8",
    "greek": "iso8859_7",
    "tis620": "iso8859_11",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "macroman": "mac_roman",
    "macce": "mac_latin2",
    "hp8": "hp_roman8",
    "binary": "latin-1",
}


def decoder(charset: str | None) -> Callable[[bytes], str]:
    """What makes a text of a column's bytes. Its calls raise ConversionError."""
    if charset == "latin1":
        return _latin1
    codec = _CODECS.get(charset or "utf8mb4")
    if codec is None:

        def refuse(data: bytes) -> str:
            raise ConversionError(f"Python has no codec for the character set {charset}")

        return refuse

    def decode(data: bytes) -> str:
        return data.decode(codec, "replace")

    return decode


def _latin1(data: bytes) -> str:
    """MariaDB's latin1: Windows' page 1252, whose five holes are the control characters of ISO 8859-1."""
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return "".join(
            chr(each) if each in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else bytes((each,)).decode("cp1252")
            for each in data
        )
