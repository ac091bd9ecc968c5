r"""Templates for output: rpk's `%`-formats (`-f`), and kcat's (`--kcat-format`), applied to whole batches.

Both are compiled into the same pieces: literal bytes, and fields that turn the columns of a batch into a
column of bytes. A batch is rendered by joining columns, without a call for each record where the field is
plain.

rpk's language (franz-go's RecordFormatter) is the default: %t %T %k %K %v %V %h{…} %H %p %o %e %d %a{…} %x
%y %i %[ %| %] with modifiers in braces. Those of kcat's tokens that it leaves free mean there what they mean
in kcat: %s, %S, %R and %h without a brace. The three that differ, %T (kcat: the timestamp) and %K and the
null length (kcat: -1), follow rpk unless --kcat-format is given.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.cli.records import braces
from ottla.cli.records.escapes import escape_at, kcat_escape_at, literal
from ottla.cli.records.number_formats import (
    NUMBER_FORMATS,
    FormatNumber,
    ascii_number,
    go_format,
    strftime_format,
)
from ottla.config.errors import UsageError
from ottla.protocol.compression import Codec
from ottla.protocol.record_batch import BatchHeader
from ottla.protocol.record_columns import Headers, RecordColumns

MAX_LAYOUT_CHARACTERS: Final = 64 << 10
MAX_PIECES: Final = 1_000


@dataclass(slots=True)
class BatchView:
    """The records of a batch, or a part of them, with the facts that templates show.

    first_number: the number of the first record among all that are written, from 1.
    """

    topic: str
    partition: int
    header: BatchHeader
    columns: RecordColumns
    log_start_offset: int = -1
    last_stable_offset: int = -1
    high_watermark: int = -1
    first_number: int = 1

    @property
    def count(self) -> int:
        """The number of records."""
        return len(self.columns.values)


Field = Callable[[BatchView], Sequence[bytes]]
"""A column of bytes, one for each record."""


class Template:
    """A compiled template.

    values_only: whether it shows of each record the value and the offset alone, beside facts of the batch.
    """

    def __init__(self, pieces: Sequence[bytes | Field], needs: frozenset[str]) -> None:
        self._pieces = _merged(pieces)
        self.values_only = not needs

    def render(self, view: BatchView) -> bytes:
        """The text of all records of a batch."""
        count = view.count
        if not count:
            return b""
        pieces = self._pieces
        if len(pieces) == 2 and not isinstance(pieces[0], bytes) and isinstance(pieces[1], bytes):
            return pieces[1].join(pieces[0](view)) + pieces[1]
        width = len(pieces)
        parts = [b""] * (width * count)
        for index, piece in enumerate(pieces):
            parts[index::width] = [piece] * count if isinstance(piece, bytes) else piece(view)
        return b"".join(parts)


def _merged(pieces: Sequence[bytes | Field]) -> list[bytes | Field]:
    merged: list[bytes | Field] = []
    for piece in pieces:
        if isinstance(piece, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += piece
        elif piece != b"":
            merged.append(piece)
    return merged


# -- columns -------------------------------------------------------------------------------------------------


def _keys(view: BatchView) -> Sequence[bytes | None]:
    return view.columns.keys


def _values(view: BatchView) -> Sequence[bytes | None]:
    return view.columns.values


def _topics(view: BatchView) -> Sequence[bytes | None]:
    return [literal(view.topic)] * view.count


Texts = Callable[[BatchView], Sequence[bytes | None]]
Numbers = Callable[[BatchView], Sequence[int]]


def _text(column: Texts, form: Callable[[bytes], bytes] | None = None, null: bytes = b"") -> Field:
    """The column, with each text in a form."""
    if form is not None:
        return lambda view: [null if text is None else form(text) for text in column(view)]

    def plain(view: BatchView) -> Sequence[bytes]:
        texts = column(view)
        if None in texts:
            return [null if text is None else text for text in texts]
        return texts  # type: ignore[return-value]

    return plain


def _number(column: Numbers, form: FormatNumber) -> Field:
    return lambda view: list(map(form, column(view)))


def _lengths(column: Texts, null: int) -> Numbers:
    return lambda view: [null if text is None else len(text) for text in column(view)]


def _same(value: Callable[[BatchView], int]) -> Numbers:
    return lambda view: [value(view)] * view.count


def _offsets(view: BatchView) -> Sequence[int]:
    return view.columns.offsets


def _timestamps(view: BatchView) -> Sequence[int]:
    return view.columns.timestamps


def _header_counts(view: BatchView) -> Sequence[int]:
    return list(map(len, view.columns.headers))


_NUMBERS: Final[dict[str, tuple[Numbers, bool]]] = {
    "T": (_lengths(_topics, 0), False),
    "K": (_lengths(_keys, 0), True),
    "V": (_lengths(_values, 0), False),
    "H": (_header_counts, True),
    "p": (_same(lambda view: view.partition), False),
    "o": (_offsets, False),
    "e": (_same(lambda view: view.header.partition_leader_epoch), False),
    "x": (_same(lambda view: view.header.producer_id), False),
    "y": (_same(lambda view: view.header.producer_epoch), False),
    "i": (lambda view: range(view.first_number, view.first_number + view.count), False),
    "[": (_same(lambda view: view.log_start_offset), False),
    "|": (_same(lambda view: view.last_stable_offset), False),
    "]": (_same(lambda view: view.high_watermark), False),
}
"""rpk's numbers, and whether they need more than the value."""
_TEXTS: Final[dict[str, tuple[Texts, bool]]] = {
    "t": (_topics, False),
    "k": (_keys, True),
    "v": (_values, False),
}
_ATTRIBUTES: Final[dict[str, Callable[[BatchHeader], int]]] = {
    "compression": lambda header: header.codec_id,
    "timestamp-type": lambda header: int(header.timestamp_type),
    "transactional-bit": lambda header: int(header.is_transactional),
    "control-bit": lambda header: int(header.is_control),
}


def _raw_base64(data: bytes) -> bytes:
    return base64.b64encode(data).rstrip(b"=")


_TEXT_FORMS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "base64": base64.b64encode,
    "base64raw": _raw_base64,
    "hex": lambda data: data.hex().encode(),
}


# -- rpk's language ------------------------------------------------------------------------------------------


def rpk_template(layout: str, null: bytes = b"") -> Template:
    """A template in rpk's language. null: written for a null key or value. Raises UsageError."""
    return _Rpk(_checked(layout), null).template()


class _Rpk:
    """Parses one template from its beginning to its end."""

    def __init__(self, layout: str, null: bytes, *, of_header: bool = False) -> None:
        self._layout = layout
        self._null = null
        self._of_header = of_header
        self._at = 0
        self._pieces: list[bytes | Field] = []
        self._needs: set[str] = set()

    def template(self) -> Template:
        layout = self._layout
        while self._at < len(layout):
            character = layout[self._at]
            if character == "\\":
                piece, self._at = escape_at(layout, self._at)
                self._add(piece)
            elif character == "%":
                self._at += 1
                self._verb()
            else:
                end = self._at + 1
                while end < len(layout) and layout[end] not in "\\%":
                    end += 1
                self._add(literal(layout[self._at : end]))
                self._at = end
        return Template(self._pieces, frozenset(self._needs))

    def _add(self, piece: bytes | Field, needs: str = "") -> None:
        self._pieces.append(piece)
        if len(self._pieces) > MAX_PIECES:
            raise UsageError(f"the template has more than {MAX_PIECES} parts")
        if needs:
            self._needs.add(needs)

    def _verb(self) -> None:
        layout = self._layout
        if self._at == len(layout):
            raise UsageError("the template ends in %; %% is a percent sign")
        verb = layout[self._at]
        self._at += 1
        if verb in "%{}":
            self._add(literal(verb))
            return
        braced = layout[self._at : self._at + 1] == "{"
        if self._of_header and verb not in "kKvV":
            raise UsageError(f"%{verb} is nothing of a header: there are %k %K %v %V")
        if verb in _NUMBERS:
            numbers, more = _NUMBERS[verb]
            self._add(
                _number(numbers, self._number_form(verb) if braced else ascii_number), verb if more else ""
            )
        elif verb in _TEXTS:
            texts, more = _TEXTS[verb]
            self._add(
                _text(texts, self._text_form(verb) if braced else None, self._null), verb if more else ""
            )
        elif verb == "d":
            self._add(_number(_timestamps, self._time_form() if braced else ascii_number), verb)
        elif verb == "a":
            self._attribute(braced)
        elif verb == "h":
            self._add(self._headers() if braced else _kcat_headers(), verb)
        elif verb == "s":
            self._add(_text(_values, None, self._null))
        elif verb == "S":
            self._add(_number(_lengths(_values, -1), ascii_number))
        elif verb == "R":
            self._add(_number(_lengths(_values, -1), NUMBER_FORMATS["big32"]))
        else:
            raise UsageError(f"there is no %{verb}: {KNOWN}")

    def _modifier(self, verb: str) -> str:
        """The text in the braces that begin here; they hold none."""
        found, self._at = braces.simple(self._layout, self._at, verb)
        return found

    def _number_form(self, verb: str) -> FormatNumber:
        name = self._modifier(verb)
        form = NUMBER_FORMATS.get(name)
        if form is None:
            raise UsageError(f"%{verb}{{{name}}}: a number is written as {', '.join(NUMBER_FORMATS)}")
        return form

    def _text_form(self, verb: str) -> Callable[[bytes], bytes]:
        if self._layout.startswith("{unpack", self._at):
            return _unpacking(self._enclosed("unpack", verb))
        name = self._modifier(verb)
        form = _TEXT_FORMS.get(name)
        if form is None:
            raise UsageError(f"%{verb}{{{name}}}: a text is written as {', '.join(_TEXT_FORMS)} or unpack[…]")
        return form

    def _time_form(self) -> FormatNumber:
        if self._layout.startswith("{strftime", self._at):
            return strftime_format(self._enclosed("strftime", "d"))
        if self._layout.startswith("{go", self._at):
            return go_format(self._enclosed("go", "d"))
        name = self._modifier("d")
        form = NUMBER_FORMATS.get(name)
        if form is None:
            raise UsageError(
                f"%d{{{name}}}: a time is written as strftime[…], go[…] or {', '.join(NUMBER_FORMATS)}"
            )
        return form

    def _enclosed(self, name: str, verb: str) -> str:
        """The text of `{name[text]}`, which begins here."""
        found, self._at = braces.enclosed(self._layout, self._at, name, verb)
        return found

    def _attribute(self, braced: bool) -> None:
        name, semicolon, form = self._modifier("a").partition(";") if braced else ("", "", "")
        attribute = _ATTRIBUTES.get(name)
        if attribute is None or (semicolon and form not in NUMBER_FORMATS):
            raise UsageError(
                f"%a{{{name}{semicolon}{form}}}: there are %a{{{'}, %a{'.join(_ATTRIBUTES)}}}, each with "
                "a format of numbers after `;`"
            )
        if name == "compression" and not semicolon:
            self._add(lambda view: [_codec_name(view.header).encode()] * view.count)
            return
        self._add(
            _number(
                _same(lambda view: attribute(view.header)), NUMBER_FORMATS[form] if form else ascii_number
            )
        )

    def _headers(self) -> Field:
        """`%h{…}`: a template for each header."""
        spec, self._at = braces.nested(self._layout, self._at, "h")
        inner = _Rpk(spec, self._null, of_header=True).template()

        def rendered(headers: Headers) -> bytes:
            if not headers:
                return b""
            columns = RecordColumns(
                range(len(headers)),
                (),
                [literal(name) for name, _ in headers],
                [value for _, value in headers],
                (),
            )
            return inner.render(BatchView("", 0, _NO_HEADER, columns))

        return lambda view: list(map(rendered, view.columns.headers))


KNOWN: Final = (
    "%t topic, %k key, %v or %s value, %h{…} headers, %p partition, %o offset, %d timestamp, "
    "%T %K %V %H lengths, %e leader epoch, %a{…} attributes, %x producer id, %y its epoch, %i count, "
    "%[ %| %] the log's offsets"
)
_NO_HEADER: Final = BatchHeader(0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def _codec_name(header: BatchHeader) -> str:
    return Codec(header.codec_id).config_name if header.codec_id <= Codec.ZSTD else "unknown"


_UNPACKED: Final = {
    "b": ("b", 1), "B": ("B", 1), "h": ("h", 2), "H": ("H", 2), "i": ("i", 4), "I": ("I", 4), "q": ("q", 8),
    "Q": ("Q", 8),
}  # fmt: skip


def _unpacking(pattern: str) -> Callable[[bytes], bytes]:
    """`unpack[…]`: numbers out of binary data, one after the other, as rpk's and kcat's -s do."""
    steps: list[tuple[str, str]] = []
    order = "<"
    ended = False
    for mark in pattern:
        if ended:
            raise UsageError(f"unpack[{pattern}]: nothing comes after s or $")
        if mark in "<>":
            order = mark
        elif mark in _UNPACKED or mark in "c.s$":
            steps.append((mark, order))
            ended = mark in "s$"
        elif mark != "x":
            raise UsageError(f"unpack[{pattern}]: {mark!r} is none of < > x b B h H i I q Q c . s $")

    def unpack(data: bytes) -> bytes:
        written = bytearray()
        at = 0
        for mark, order in steps:
            if mark in _UNPACKED:
                code, size = _UNPACKED[mark]
                if len(data) - at < size:
                    written += b"%%!%%s(have %d bytes, need %d)" % (len(data) - at, size)
                    at = len(data)
                else:
                    written += b"%d" % struct.unpack_from(order + code, data, at)[0]
                    at += size
            elif mark in "c.":
                written += data[at : at + 1] or b"%!c(no bytes available)"
                at = min(at + 1, len(data))
            elif mark == "s":
                written += data[at:]
            elif at < len(data):
                written += b"%!$(not end-of-input)"
        return bytes(written)

    return unpack


# -- kcat's language -----------------------------------------------------------------------------------------


def kcat_template(layout: str, null: bytes = b"") -> Template:
    """A template in kcat's language. null: written for a null key or value (kcat -Z). Raises UsageError."""
    layout = _checked(layout)
    pieces: list[bytes | Field] = []
    needs: set[str] = set()
    at = 0
    while at < len(layout):
        if layout[at] == "\\":
            piece, at = kcat_escape_at(layout, at)
            pieces.append(piece)
        elif layout[at] != "%":
            pieces.append(literal(layout[at]))
            at += 1
        else:
            token = layout[at + 1 : at + 2]
            field, more = _kcat_field(token, null)
            pieces.append(field)
            if more:
                needs.add(token)
            at += 2
    merged = _merged(pieces)
    if len(merged) > MAX_PIECES:
        raise UsageError(f"the template has more than {MAX_PIECES} parts")
    return Template(merged, frozenset(needs))


def _kcat_field(token: str, null: bytes) -> tuple[bytes | Field, bool]:
    """The field of a token, and whether it needs more than the value."""
    match token:
        case "%":
            return b"%", False
        case "s":
            return _text(_values, None, null), False
        case "S":
            return _number(_lengths(_values, -1), ascii_number), False
        case "R":
            return _number(_lengths(_values, -1), NUMBER_FORMATS["big32"]), False
        case "k":
            return _text(_keys, None, null), True
        case "K":
            return _number(_lengths(_keys, -1), ascii_number), True
        case "T":
            return _number(_timestamps, ascii_number), True
        case "h":
            return _kcat_headers(), True
        case "t":
            return _text(_topics), False
        case "p":
            return _number(_NUMBERS["p"][0], ascii_number), False
        case "o":
            return _number(_offsets, ascii_number), False
        case "":
            raise UsageError("the template ends in %; %% is a percent sign")
    raise UsageError(f"kcat has no %{token}: there are %s %S %R %k %K %T %h %t %p %o %%")


def _kcat_headers() -> Field:
    def text(headers: Headers) -> bytes:
        return b",".join(
            literal(name) + b"=" + (b"NULL" if value is None else value) for name, value in headers
        )

    return lambda view: list(map(text, view.columns.headers))


def _checked(layout: str) -> str:
    if not layout:
        raise UsageError("the template is empty")
    if len(layout) > MAX_LAYOUT_CHARACTERS:
        raise UsageError(f"the template has more than {MAX_LAYOUT_CHARACTERS} characters")
    return layout
