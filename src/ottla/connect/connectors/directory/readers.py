"""The rows of one file from an offset on, in each format."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from ottla.connect.connectors.directory.formats import BadFile, Format
from ottla.connect.connectors.growing_file import CHUNK_BYTES, MAX_LINE_BYTES, GrowingFile, split_lines
from ottla.connect.data.record import SourceOffset
from ottla.connect.data.schema import DataError, Schema, Type

ROW: Final = "row"
POSITION: Final = "position"
INODE: Final = "inode"
LINE: Final = Schema(Type.STRING)


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How CSV is read. types: columns and Arrow's names of types; infer: the others', by their values."""

    header: bool = True
    separator: str = ","
    quote: str = '"'
    types: Sequence[tuple[str, str]] = ()
    infer: bool = False


class Rows(NamedTuple):
    """Values with their schema, and the offset after each."""

    values: list[Any]
    schema: Schema | None
    offsets: list[SourceOffset]


def read_file(
    path: Path, kind: Format, offset: SourceOffset, csv: CsvOptions, batch_rows: int, tail: bool
) -> Iterator[Rows | None]:
    """The rows after an offset; None: there are none now (only with tail). Raises BadFile, OSError."""
    match kind:
        case Format.LINES | Format.JSON if tail:
            return _tailed(path, kind, offset)
        case Format.LINES | Format.JSON:
            return _lines(path, kind, offset)
        case Format.CSV:
            return _csv(path, offset, csv, batch_rows)
        case Format.PARQUET:
            return _parquet(path, offset, batch_rows)


def _place(offset: SourceOffset, name: str) -> int:
    value = offset.get(name, 0)
    if type(value) is not int or value < 0:
        raise ValueError(f"the offset's {name!r} must be a number, not {value!r}")
    return value


def _lines(path: Path, kind: Format, offset: SourceOffset) -> Iterator[Rows]:
    """The lines of a file that is complete: its end ends the last one."""
    row, position = _place(offset, ROW), _place(offset, POSITION)
    with path.open("rb") as file:
        file.seek(position)
        pending = b""
        while True:
            data = file.read(CHUNK_BYTES)
            pending += data
            texts, ends = split_lines(pending, position, whole=not data)
            if texts:
                offsets = [{ROW: row + count, POSITION: end} for count, end in enumerate(ends, 1)]
                yield _rows(path, kind, texts, row, offsets)
                row += len(texts)
                pending = pending[ends[-1] - position :]
                position = ends[-1]
            if not data:
                return
            if len(pending) > MAX_LINE_BYTES:
                raise BadFile(f"{path}: line {row + 1} is longer than {MAX_LINE_BYTES} bytes")


def _tailed(path: Path, kind: Format, offset: SourceOffset) -> Iterator[Rows | None]:
    row = _place(offset, ROW)
    file = GrowingFile(path, _place(offset, POSITION), offset.get(INODE))
    try:
        while True:
            lines = file.read()
            if lines is None:
                yield None
                continue
            offsets: list[SourceOffset] = [
                {ROW: row + count, POSITION: end, INODE: lines.inode}
                for count, end in enumerate(lines.ends, 1)
            ]
            yield _rows(path, kind, lines.texts, row, offsets)
            row += len(lines.texts)
    finally:
        file.close()


def _rows(path: Path, kind: Format, texts: list[str], row: int, offsets: Sequence[SourceOffset]) -> Rows:
    if kind is Format.LINES:
        return Rows(list(texts), LINE, list(offsets))
    values, places = [], []
    for text, offset in zip(texts, offsets, strict=True):
        row += 1
        if not text or text.isspace():
            continue
        try:
            values.append(json.loads(text))
        except (ValueError, RecursionError) as problem:
            raise BadFile(f"{path}: line {row} is no JSON: {problem}") from None
        places.append(offset)
    return Rows(values, None, places)


def _csv(path: Path, offset: SourceOffset, options: CsvOptions, batch_rows: int) -> Iterator[Rows]:
    """The rows of a CSV file, always read from its beginning: inferred types are the same after a restart."""
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    if path.stat().st_size == 0:
        return
    parse = arrow_csv.ParseOptions(
        delimiter=options.separator, quote_char=options.quote or False, newlines_in_values=True
    )
    read = arrow_csv.ReadOptions(autogenerate_column_names=not options.header)
    try:
        types: dict[str, Any] = {}
        if not options.infer:
            with arrow_csv.open_csv(path, read_options=read, parse_options=parse) as opened:
                types = dict.fromkeys(opened.schema.names, pa.string())
        for name, type_name in options.types:
            types[name] = pa.type_for_alias(type_name)
        convert = arrow_csv.ConvertOptions(
            column_types=types, strings_can_be_null=True, null_values=[""], quoted_strings_can_be_null=False
        )
        with arrow_csv.open_csv(
            path, read_options=read, parse_options=parse, convert_options=convert
        ) as opened:
            yield from _columns(path, opened, opened.schema, _place(offset, ROW), 0, batch_rows)
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowTypeError, DataError) as problem:
        raise BadFile(f"{path}: {problem}") from None


def _parquet(path: Path, offset: SourceOffset, batch_rows: int) -> Iterator[Rows]:
    import pyarrow as pa
    import pyarrow.parquet as arrow_parquet

    skipped, row = 0, _place(offset, ROW)
    try:
        with arrow_parquet.ParquetFile(path) as file:
            groups: list[int] = []
            for group in range(file.num_row_groups):
                rows = file.metadata.row_group(group).num_rows
                if not groups and skipped + rows <= row:
                    skipped += rows
                else:
                    groups.append(group)
            if groups:
                batches = file.iter_batches(batch_size=batch_rows, row_groups=groups)
                yield from _columns(path, batches, file.schema_arrow, row, skipped, batch_rows)
    except (pa.ArrowException, DataError) as problem:
        raise BadFile(f"{path}: {problem}") from None


def _columns(
    path: Path, batches: Any, columns: Any, first_row: int, row: int, batch_rows: int
) -> Iterator[Rows]:
    """The rows of record batches from `first_row` on; the first batch begins at `row`."""
    from ottla.connect.connectors.directory.arrow import connect_schema, row_converter

    schema = connect_schema(columns, path.name.partition(".")[0])
    convert = row_converter(schema, columns)
    for batch in batches:
        for start in range(0, batch.num_rows, batch_rows):
            part = batch.slice(start, batch_rows)
            skipped = min(max(first_row - row, 0), part.num_rows)
            row += part.num_rows
            values = [convert(each) for each in part.slice(skipped).to_pylist()]
            if values:
                first = row - len(values) + 1
                yield Rows(values, schema, [{ROW: number} for number in range(first, row + 1)])
