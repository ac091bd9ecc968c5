r"""Templates for input: `ottla produce -f '%k %v\n'`, the language of rpk's produce (franz-go's
RecordReader).

A template is a row of steps, each of which takes bytes off the input: literal text, a text up to the next
literal, a text of a size that was read before, a number, a match of a regular expression, a JSON value. When
all steps are done there is a record, and the template begins anew. Two things are kinder than in rpk: the
last literal may be missing at the end of the input, as the last line's end often is; and an empty key is an
empty key, not none.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from ottla.cli.records import braces
from ottla.cli.records.escapes import escape_at, literal
from ottla.cli.records.input_records import BadInput, InputRecord
from ottla.config.errors import UsageError

MAX_HEADERS: Final = 100_000
_DIGITS: Final = re.compile(rb"[0-9]+")
_JSON_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_JSON_MARK: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]|"', re.DOTALL)
_JSON_SCALAR: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[^\s"\[\]{},:]+', re.DOTALL)
_JSON_OUTSIDE: Final = re.compile(rb'("(?:[^"\\]|\\.)*")|[ \t\r\n]+', re.DOTALL)


class NeedMore(Exception):
    """The input so far ends within a record."""


@dataclass(slots=True)
class _State:
    """What was read of the record so far. numbers: by their letters; texts: key, value, topic."""

    data: bytes
    at: int
    final: bool
    numbers: dict[str, int] = field(default_factory=dict)
    texts: dict[str, bytes] = field(default_factory=dict)
    headers: list[tuple[str, bytes | None]] = field(default_factory=list)

    def take(self, count: int) -> bytes:
        """The next bytes. Raises NeedMore, BadInput at the end."""
        end = self.at + count
        if end > len(self.data):
            raise self.ended()
        found = self.data[self.at : end]
        self.at = end
        return found

    def ended(self) -> Exception:
        """The error for input that ends here: more may come, or not."""
        return BadInput("the input ends within a record") if self.final else NeedMore()


Step = Callable[[_State], None]


class InputTemplate:
    """A compiled template. Raises UsageError for a layout that is none."""

    def __init__(self, layout: str) -> None:
        self._steps = _Parser(layout).steps()

    def read(self, data: bytes, at: int, final: bool, source: int) -> tuple[InputRecord, int]:
        """The record that begins at `at`, and the position after it. final: no more input comes.

        Raises NeedMore, BadInput.
        """
        state = _State(data, at, final)
        for step in self._steps:
            step(state)
        if state.at == at:
            raise BadInput("the template takes nothing off the input")
        numbers = state.numbers
        topic = state.texts.get("t")
        record = InputRecord(
            state.texts.get("k"),
            state.texts.get("v", b""),
            tuple(state.headers),
            None if topic is None else topic.decode("utf-8", "surrogateescape"),
            numbers.get("p"),
            numbers.get("d"),
            source,
        )
        return record, state.at


class _Parser:
    """Parses one layout into steps."""

    def __init__(self, layout: str, *, of_header: bool = False) -> None:
        if not layout:
            raise UsageError("the template is empty")
        self._layout = layout
        self._of_header = of_header
        self._at = 0
        self._sized: set[str] = set()
        self._steps: list[Step] = []
        self._open: str | None = None
        """The text that ends where the next literal begins."""
        self._decode: Callable[[bytes], bytes] | None = None
        self._literal = bytearray()

    def steps(self) -> list[Step]:
        """All steps, those that read nothing first. Raises UsageError."""
        layout = self._layout
        while self._at < len(layout):
            character = layout[self._at]
            if character == "\\":
                piece, self._at = escape_at(layout, self._at)
                self._literal += piece
            elif character == "%" and layout[self._at + 1 : self._at + 2] in ("%", "{", "}"):
                self._literal += literal(layout[self._at + 1])
                self._at += 2
            elif character == "%":
                self._end_literal()
                self._at += 1
                self._verb()
            else:
                self._literal += literal(character)
                self._at += 1
        self._end_literal(is_last=True)
        if not self._steps:
            raise UsageError("the template reads nothing")
        return self._steps

    def _end_literal(self, *, is_last: bool = False) -> None:
        mark, self._literal = bytes(self._literal), bytearray()
        name, decode = self._open, self._decode
        self._open = self._decode = None
        if name is not None:
            if not mark and not is_last:
                raise UsageError(
                    f"between %{name} and the next % there is nothing by which to tell where it ends: give a "
                    f"separator, or %{name.upper()} before"
                )
            if self._of_header and not mark:
                raise UsageError(f"%{name} of a header needs a separator or a length")
            self._steps.append(_delimited(name, mark, decode, is_last=is_last and not self._of_header))
        elif mark:
            self._steps.append(_exact(mark, is_last=is_last and bool(self._steps) and not self._of_header))

    def _verb(self) -> None:
        layout = self._layout
        if self._at == len(layout):
            raise UsageError("the template ends in %; %% is a percent sign")
        verb = layout[self._at]
        self._at += 1
        braced = layout[self._at : self._at + 1] == "{"
        allowed = "kKvV" if self._of_header else "tTkKvVhHpoedxy"
        if verb not in allowed:
            raise UsageError(f"there is no %{verb} to read: there are %{' %'.join(allowed)}")
        if verb in "TKVH":
            if verb in self._sized:
                raise UsageError(f"%{verb} is there twice")
            self._sized.add(verb)
            self._number(verb, braced)
        elif verb in "poedxy":
            self._number(verb, braced)
        elif verb == "h":
            self._header_steps(braced)
        else:
            self._text(verb, braced)

    def _modifier(self, verb: str) -> str:
        """The text in the braces that begin here; they hold none."""
        found, self._at = braces.simple(self._layout, self._at, verb)
        return found

    def _number(self, verb: str, braced: bool) -> None:
        name = self._modifier(verb) if braced else "ascii"
        if name.isascii() and name.isdecimal():
            size = int(name[:19])
            if size == 0:
                raise UsageError(f"%{verb}{{{name}}}: a size is at least 1")
            self._steps.insert(0, lambda state: state.numbers.__setitem__(verb, size))
            return
        read = _NUMBERS.get(name)
        if read is None:
            raise UsageError(
                f"%{verb}{{{name}}}: a number is read as {', '.join(_NUMBERS)}, or is a size like 4"
            )
        self._steps.append(lambda state: state.numbers.__setitem__(verb, read(state)))

    def _text(self, verb: str, braced: bool) -> None:
        sized = verb.upper() in self._sized
        if not braced:
            self._put_text(verb, None, sized)
            return
        if self._layout.startswith("{re", self._at):
            pattern = _pattern(self._enclosed("re", verb))
            if sized:
                raise UsageError(f"%{verb} has a length, so it can't be a regular expression too")
            self._steps.append(_matching(verb, pattern))
            return
        name = self._modifier(verb)
        if name == "json":
            if sized:
                raise UsageError(f"%{verb} has a length, so it can't be read as JSON too")
            self._steps.append(_json(verb))
            return
        decode = _DECODERS.get(name)
        if decode is None:
            raise UsageError(f"%{verb}{{{name}}}: a text is read as {', '.join(_DECODERS)}, json or re[…]")
        self._put_text(verb, decode, sized)

    def _put_text(self, verb: str, decode: Callable[[bytes], bytes] | None, sized: bool) -> None:
        if sized:
            self._steps.append(_of_size(verb, decode))
        else:
            self._open, self._decode = verb, decode

    def _enclosed(self, name: str, verb: str) -> str:
        """The text of `{name[text]}`, which begins here."""
        found, self._at = braces.enclosed(self._layout, self._at, name, verb)
        return found

    def _header_steps(self, braced: bool) -> None:
        if "H" not in self._sized:
            raise UsageError("%H, the number of headers, comes before %h{…}")
        if not braced:
            raise UsageError("%h is followed by the template of a header in braces: %h{%k=%v }")
        spec, self._at = braces.nested(self._layout, self._at, "h")
        inner = _Parser(spec, of_header=True).steps()

        def read(state: _State) -> None:
            count = state.numbers["H"]
            if count > MAX_HEADERS:
                raise BadInput(f"a record has {count} headers; {MAX_HEADERS} are the most")
            for _ in range(count):
                one = _State(state.data, state.at, state.final)
                for step in inner:
                    step(one)
                name = one.texts.get("k", b"").decode("utf-8", "surrogateescape")
                state.headers.append((name, one.texts.get("v", b"")))
                state.at = one.at

        self._steps.append(read)


def _exact(mark: bytes, *, is_last: bool) -> Step:
    def step(state: _State) -> None:
        end = state.at + len(mark)
        found = state.data[state.at : end]
        if found == mark:
            state.at = end
        elif len(found) < len(mark) and not state.final:
            raise NeedMore
        elif is_last and not found:
            return
        else:
            raise BadInput(f"{found[:40]!r} where the template has {mark[:40]!r}")

    return step


def _delimited(name: str, mark: bytes, decode: Callable[[bytes], bytes] | None, *, is_last: bool) -> Step:
    def step(state: _State) -> None:
        end = state.data.find(mark, state.at) if mark else -1
        after = end + len(mark)
        if end < 0:
            if not state.final:
                raise NeedMore
            if not is_last:
                raise BadInput(f"the input ends before {mark[:40]!r}, which ends %{name}")
            end = after = len(state.data)
        found = state.data[state.at : end]
        state.at = after
        state.texts[name] = found if decode is None else decode(found)

    return step


def _of_size(name: str, decode: Callable[[bytes], bytes] | None) -> Step:
    size = name.upper()

    def step(state: _State) -> None:
        found = state.take(state.numbers[size])
        state.texts[name] = found if decode is None else decode(found)

    return step


def _pattern(text: str) -> re.Pattern[bytes]:
    try:
        return re.compile(literal(text))
    except (re.error, OverflowError, RecursionError) as problem:
        raise UsageError(f"{text!r} is no regular expression: {problem}") from None


def _matching(name: str, pattern: re.Pattern[bytes]) -> Step:
    def step(state: _State) -> None:
        found = pattern.match(state.data, state.at)
        if not state.final and (found is None or found.end() == len(state.data)):
            raise NeedMore
        if found is None:
            raise BadInput(f"{state.data[state.at : state.at + 40]!r} does not match {pattern.pattern!r}")
        state.texts[name] = found[0]
        state.at = found.end()

    return step


def _json(name: str) -> Step:
    def step(state: _State) -> None:
        start = _JSON_SPACE.match(state.data, state.at)
        assert start is not None
        end = _json_end(state, start.end())
        text = state.data[start.end() : end]
        try:
            json.loads(text)
        except (ValueError, RecursionError) as problem:
            raise BadInput(f"not JSON: {problem}") from None
        state.texts[name] = _JSON_OUTSIDE.sub(lambda found: found[1] or b"", text)
        state.at = end

    return step


def _json_end(state: _State, at: int) -> int:
    """The position after the JSON value that begins at `at`."""
    data = state.data
    first = data[at : at + 1]
    if not first:
        raise state.ended()
    if first not in (b"{", b"["):
        found = _JSON_SCALAR.match(data, at)
        if found is None or (found.end() == len(data) and not state.final and first != b'"'):
            if not state.final:
                raise NeedMore
            if found is None:
                raise BadInput(f"not JSON: {data[at : at + 40]!r}")
        return found.end()
    depth = 0
    for found in _JSON_MARK.finditer(data, at):
        mark = found[0]
        if mark in (b"{", b"["):
            depth += 1
        elif mark in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return found.end()
        elif mark == b'"':
            break
    raise state.ended()


def _ascii(state: _State) -> int:
    found = _DIGITS.match(state.data, state.at)
    if (
        not state.final
        and (found is None or found.end() == len(state.data))
        and len(state.data) - state.at < 32
    ):
        raise NeedMore
    if found is None or len(found[0]) > 19:
        raise BadInput(f"{state.data[state.at : state.at + 20]!r} is no number")
    state.at = found.end()
    return int(found[0])


def _hexadecimal(digits: int) -> Callable[[_State], int]:
    def read(state: _State) -> int:
        text = state.take(digits)
        try:
            return int(binascii.unhexlify(b"0" * (digits % 2) + text).hex(), 16)
        except ValueError:
            raise BadInput(f"{text!r} is no hexadecimal number") from None

    return read


def _bool(state: _State) -> int:
    for word, number in ((b"true", 1), (b"false", 0)):
        if state.data.startswith(word, state.at):
            state.at += len(word)
            return number
    if not state.final and len(state.data) - state.at < 5:
        raise NeedMore
    raise BadInput(f"{state.data[state.at : state.at + 5]!r} is neither true nor false")


_NUMBERS: Final[dict[str, Callable[[_State], int]]] = {
    "ascii": _ascii,
    "number": _ascii,
    "hex64": _hexadecimal(16),
    "hex32": _hexadecimal(8),
    "hex16": _hexadecimal(4),
    "hex8": _hexadecimal(2),
    "hex4": _hexadecimal(1),
    "big64": lambda state: int.from_bytes(state.take(8), "big"),
    "big32": lambda state: int.from_bytes(state.take(4), "big"),
    "big16": lambda state: int.from_bytes(state.take(2), "big"),
    "big8": lambda state: state.take(1)[0],
    "little64": lambda state: int.from_bytes(state.take(8), "little"),
    "little32": lambda state: int.from_bytes(state.take(4), "little"),
    "little16": lambda state: int.from_bytes(state.take(2), "little"),
    "little8": lambda state: state.take(1)[0],
    "byte": lambda state: state.take(1)[0],
    "bool": _bool,
}


def _from_base64(text: bytes) -> bytes:
    try:
        return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except ValueError as problem:
        raise BadInput(f"{text[:40]!r} is not base64: {problem}") from None


def _from_hex(text: bytes) -> bytes:
    try:
        return binascii.unhexlify(text)
    except ValueError as problem:
        raise BadInput(f"{text[:40]!r} is not hexadecimal: {problem}") from None


_DECODERS: Final[dict[str, Callable[[bytes], bytes]]] = {"base64": _from_base64, "hex": _from_hex}
