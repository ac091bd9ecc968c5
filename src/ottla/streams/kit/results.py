"""Results of tests and previews: records, dead letters, and both as tables for a notebook. Plain data."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas

SHOWN_ROWS = 100
_MAX_CELL_CHARACTERS = 200
_STYLE = (
    "border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums",
    "text-align:left;padding:3px 10px;border-bottom:1px solid #8888",
    "text-align:left;padding:3px 10px;border-bottom:1px solid #8883;vertical-align:top",
)


@dataclass(frozen=True, slots=True)
class OutputRecord:
    """One record that a topology wrote. A tombstone's value is None; a struct's key is a named tuple."""

    key: Any
    value: Any
    timestamp: datetime
    """Naive, in UTC, as functions of a topology see it."""
    headers: Mapping[str, bytes | None]
    """Of headers of one name, the last."""
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that was not processed, as it came, and why."""

    key: bytes | None
    value: bytes | None
    topic: str
    partition: int
    offset: int
    node: str
    """The name of the topology's node that met it."""
    stage: str
    """KEY_CONVERTER or VALUE_CONVERTER for bytes that can't be read, TRANSFORMATION for a function."""
    error: str
    message: str
    traceback: str | None


@dataclass(frozen=True)
class Preview:
    """The output of a sample. A notebook shows it as a table; `frame` gives it as a pandas DataFrame."""

    title: str
    records: Sequence[OutputRecord]
    dead_letters: Sequence[DeadLetter]

    @property
    def frame(self) -> pandas.DataFrame:
        """A row a record: key, value, timestamp, headers."""
        import pandas

        rows = [(each.key, each.value, each.timestamp, dict(each.headers)) for each in self.records]
        return pandas.DataFrame(rows, columns=["key", "value", "timestamp", "headers"])

    @property
    def dead_letter_frame(self) -> pandas.DataFrame:
        """A row a record that was not processed: topic, partition, offset, key, value, node, error."""
        import pandas

        rows = [
            (each.topic, each.partition, each.offset, each.key, each.value, each.node, _why(each))
            for each in self.dead_letters
        ]
        names = ["topic", "partition", "offset", "key", "value", "node", "error"]
        return pandas.DataFrame(rows, columns=names)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        lines = [self._summary(), *(f"  {_cell(each.key)}  {_cell(each.value)}" for each in self._shown())]
        lines += [
            f"  not processed: {each.topic}-{each.partition} at offset {each.offset}: {_why(each)}"
            for each in self.dead_letters[:SHOWN_ROWS]
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        parts = [f"<div><b>{html.escape(self._summary())}</b></div>"]
        parts.append(
            _html_table(
                ("key", "value", "timestamp"),
                [(_cell(each.key), _cell(each.value), str(each.timestamp)) for each in self._shown()],
            )
        )
        if self.dead_letters:
            rows = [
                (f"{each.topic}-{each.partition}@{each.offset}", _cell(each.value), each.node, _why(each))
                for each in self.dead_letters[:SHOWN_ROWS]
            ]
            parts.append(f"<div><b>not processed: {len(self.dead_letters)}</b></div>")
            parts.append(_html_table(("record", "value", "node", "error"), rows))
        return "".join(parts)

    def _shown(self) -> Sequence[OutputRecord]:
        return self.records[:SHOWN_ROWS]

    def _summary(self) -> str:
        text = f"{self.title}: {len(self.records)} records"
        if len(self.records) > SHOWN_ROWS:
            text += f", the first {SHOWN_ROWS} shown"
        return text


@dataclass(frozen=True)
class ApplicationPreview:
    """The records that an application writes for a sample, by topic."""

    outputs: Mapping[str, Preview]
    dead_letters: Sequence[DeadLetter]

    def __getitem__(self, topic: str) -> Preview:
        return self.outputs[topic]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._all()))

    def _repr_html_(self) -> str:
        return "".join(each._repr_html_() for each in self._all())

    def _all(self) -> list[Preview]:
        found = list(self.outputs.values())
        return [*found, Preview("dead letters", (), self.dead_letters)] if self.dead_letters else found


def _why(dead: DeadLetter) -> str:
    return f"{dead.error}: {dead.message}" if dead.error else dead.message


def _cell(value: Any) -> str:
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        text = ", ".join(f"{name}: {_cell(each)}" for name, each in value.items())
    else:
        text = "null" if value is None else str(value)
    return text if len(text) <= _MAX_CELL_CHARACTERS else text[: _MAX_CELL_CHARACTERS - 1] + "…"


def _html_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    table, head, body = _STYLE
    header = "".join(f'<th style="{head}">{html.escape(name)}</th>' for name in names)
    lines = (
        "<tr>" + "".join(f'<td style="{body}">{html.escape(cell)}</td>' for cell in row) + "</tr>"
        for row in rows
    )
    return f'<table style="{table}"><thead><tr>{header}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
