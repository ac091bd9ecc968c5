"""Forms in which `ottla consume` writes records: JSON lines, templates, and lines for people.

Each renders the records of one batch at once. Keys and values may have been decoded to JSON before
(`formats.py`); then they are shown as that JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ottla.cli.frame.terminal import Style, printable, styled, width_of
from ottla.cli.records.json_lines import bytes_json, json_lines
from ottla.cli.records.number_formats import moment
from ottla.cli.records.templates import BatchView, Template
from ottla.protocol.errors import CorruptBatch
from ottla.protocol.record_batch import (
    ControlRecordType,
    Record,
    control_record_type,
)

MOST_SHOWN_CHARACTERS: Final = 4_000
"""Of a value in lines for people; the other forms cut nothing."""


class Sink(Protocol):
    """A form of the output.

    values_only: whether of each record only the value, the offset and facts of its batch are shown.
    """

    values_only: bool

    def render(self, view: BatchView) -> bytes:
        """The text of the records of a batch, or of a part of it."""


class TemplateSink:
    """Records by a template; those of control batches by the same one."""

    def __init__(self, template: Template) -> None:
        self._template = template
        self.values_only = template.values_only

    def render(self, view: BatchView) -> bytes:
        return self._template.render(view)


class JsonSink:
    """JSON lines. decoded_keys, decoded_values: they are JSON already."""

    values_only = False

    def __init__(self, *, decoded_keys: bool = False, decoded_values: bool = False) -> None:
        self._decoded_keys = decoded_keys
        self._decoded_values = decoded_values

    def render(self, view: BatchView) -> bytes:
        columns = view.columns
        return json_lines(
            view.topic,
            view.partition,
            columns,
            _as_json(columns.keys, self._decoded_keys),
            _as_json(columns.values, self._decoded_values),
            view.header.is_control,
        )


def _as_json(column: Sequence[bytes | None], decoded: bool) -> list[str]:
    if decoded:
        return ["null" if text is None else text.decode() for text in column]
    return list(map(bytes_json, column))


class PeopleSink:
    """A line a record for a terminal: time, partition and offset, key, value; headers behind."""

    values_only = False

    def __init__(self, *, several_topics: bool, colours: bool, columns: int | None) -> None:
        self._several_topics = several_topics
        self._colours = colours
        self._columns = columns
        self._place_width = 0
        self._key_width = 0

    def render(self, view: BatchView) -> bytes:
        columns = view.columns
        lines = []
        for offset, timestamp, key, value, headers in zip(*columns, strict=True):
            place = f"{view.topic}-{view.partition}" if self._several_topics else str(view.partition)
            place = f"{place} @{offset}"
            self._place_width = max(self._place_width, width_of(place))
            parts = [
                self._styled(_time_text(timestamp), Style.DIM),
                self._styled(place, Style.CYAN) + " " * (self._place_width - width_of(place)),
            ]
            if view.header.is_control:
                record = Record(offset, timestamp, key, value)
                parts.append(self._styled(f"control record: {_control_name(record)}", Style.YELLOW))
            else:
                parts += self._fields(key, value, headers)
            lines.append("  ".join(parts))
        lines.append("")
        return "\n".join(lines).encode("utf-8", "replace")

    def _fields(
        self, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
    ) -> list[str]:
        parts = []
        if key is not None or self._key_width:
            text = "-" if key is None else shown(key)
            self._key_width = min(max(self._key_width, width_of(text)), 24)
            parts.append(self._styled(text, Style.GREEN) + " " * (self._key_width - width_of(text)))
        if value is None:
            parts.append(self._styled("(no value)", Style.YELLOW))
        else:
            parts.append(shown(value))
        if headers:
            text = " ".join(
                f"{printable(name)}={'(null)' if data is None else shown(data)}" for name, data in headers
            )
            parts.append(self._styled(f"[{text}]", Style.DIM))
        return parts

    def _styled(self, text: str, style: str) -> str:
        return styled(text, style) if self._colours else text


def shown(data: bytes) -> str:
    """Bytes as people read them: text, or hexadecimal digits; cut where they are long."""
    cut = data[:MOST_SHOWN_CHARACTERS]
    try:
        # a character may have been cut in two
        text = printable(cut.decode("utf-8", "strict" if len(cut) == len(data) else "ignore"))
    except UnicodeDecodeError:
        text = f"0x{cut.hex()}"
    return text if len(cut) == len(data) else f"{text}… ({len(data)} bytes)"


def _time_text(timestamp_ms: int) -> str:
    at = moment(timestamp_ms) if timestamp_ms >= 0 else None
    if at is None:
        return "-".ljust(23)
    return at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1_000:03}"


def _control_name(record: Record) -> str:
    try:
        kind = control_record_type(record)
    except CorruptBatch:
        return "malformed"
    match kind:
        case None:
            return "of an unknown kind"
        case ControlRecordType.COMMIT:
            return "commit"
        case ControlRecordType.ABORT:
            return "abort"
        case _:
            return kind.name.lower().replace("_", " ")
