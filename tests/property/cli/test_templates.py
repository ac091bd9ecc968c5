"""Templates of produce and consume: what one writes the other reads, and no layout ends in a traceback."""

from __future__ import annotations

import base64
import contextlib
import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.cli.records.escapes import delimiter
from ottla.cli.records.input_records import BadInput, InputRecord
from ottla.cli.records.input_templates import InputTemplate, NeedMore
from ottla.cli.records.templates import BatchView, Template, kcat_template, rpk_template
from ottla.config.errors import UsageError
from ottla.protocol.record_batch import BatchHeader
from ottla.protocol.record_columns import Headers, RecordColumns

HEADER = BatchHeader(5, 0, 7, 2, 0, 0, 0, 0, 0, 4000, 3, 0, 2)
NOW = 1_700_000_000_123
Row = tuple[bytes | None, bytes | None, Headers]


def view(rows: list[Row], topic: str = "orders") -> BatchView:
    columns = RecordColumns(
        range(5, 5 + len(rows)),
        [NOW] * len(rows),
        [key for key, _, _ in rows],
        [value for _, value, _ in rows],
        [headers for _, _, headers in rows],
    )
    return BatchView(topic, 3, HEADER, columns, 1, 8, 9)


def rendered(template: Template, *rows: Row) -> bytes:
    return template.render(view(list(rows)))


def read_all(layout: str, data: bytes, step: int = 7) -> list[InputRecord]:
    """All records, of input that comes in pieces."""
    template = InputTemplate(layout)
    found = []
    at = there = 0
    while at < len(data):
        final = there >= len(data)
        try:
            record, at = template.read(data[:there], at, final, 1)
        except NeedMore:
            there += step
            continue
        if at <= there:
            found.append(record)
    return found


TEXTS = st.binary(max_size=20)
ROWS = st.lists(
    st.tuples(TEXTS, TEXTS, st.lists(st.tuples(st.text(max_size=5), TEXTS), max_size=3).map(tuple)),
    min_size=1,
    max_size=4,
)


@settings(max_examples=80)
@given(
    ROWS,
    st.sampled_from(
        ["big64", "big32", "big16", "little64", "little32", "little16", "hex64", "hex32", "hex16"]
    ),
    st.integers(1, 40),
)
def test_what_a_template_with_lengths_writes_is_read_by_the_same(
    rows: list[Row], form: str, step: int
) -> None:
    layout = (
        f"%K{{{form}}}%V{{{form}}}%H{{{form}}}%d{{big64}}%p{{big16}}%k%v%h{{%K{{{form}}}%V{{{form}}}%k%v}}"
    )
    written = rpk_template(layout).render(view(rows))
    expected = [InputRecord(key, value, headers, None, 3, NOW, 1) for key, value, headers in rows]
    assert read_all(layout, written, step) == expected


@settings(max_examples=200)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=4), st.integers(1, 40))
def test_what_a_template_with_encoded_texts_writes_is_read_by_the_same(
    pairs: list[tuple[bytes, bytes]], step: int
) -> None:
    layout = r"%k{hex} %v{base64}\n"
    written = rpk_template(layout).render(view([(key, value, ()) for key, value in pairs]))
    assert [(one.key, one.value) for one in read_all(layout, written, step)] == pairs


LAYOUTS = st.text(max_size=30) | st.lists(
    st.sampled_from(
        ["%", "%k", "%v", "%h{", "}", "{", "%d{", "strftime[", "go#", "unpack{", "]", "#", "%a{",
         "compression", ";", "hex8", "big32", "%T", "%H", "%p", "%o", "%[", "%|", "%]", "%i", "\\n",
         "\\x4", "\\", "re(", "json",
         "4", "0", " ", "%%", "%s", "%S", "%R", "é", "\udcff"]
    ),
    max_size=8,
).map("".join)  # fmt: skip


@settings(max_examples=200)
@given(LAYOUTS)
@example("%d{strftime[%]}")
@example("%k{unpack[" + "q" * 5_000 + "]}")
def test_any_layout_is_a_template_or_a_clear_error(layout: str) -> None:
    rows: list[Row] = [(b"k", b"\x00\x01v", (("a", b"1"), ("b", None))), (None, None, ())]
    for compiled in (rpk_template, kcat_template):
        with contextlib.suppress(UsageError):
            assert isinstance(compiled(layout).render(view(rows)), bytes)


@settings(max_examples=200, deadline=None)
@given(LAYOUTS, st.binary(max_size=60), st.booleans())
@example("%v{json}\\n", b'{"a": "\\', True)
@example("%v{json}\\n", b"[" * 50_000, True)
@example("%H%h{%k=%v }\\n", b"9999999999", True)
def test_any_input_is_records_or_a_clear_error(layout: str, data: bytes, final: bool) -> None:
    try:
        template = InputTemplate(layout)
    except UsageError:
        return
    at = 0
    with contextlib.suppress(BadInput, NeedMore):
        while at < len(data):
            record, end = template.read(data, at, final, 1)
            assert isinstance(record, InputRecord)
            assert end > at
            at = end


@settings(max_examples=200)
@given(st.text(max_size=20))
def test_any_delimiter_is_bytes_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert delimiter(text)


ONE: Row = (b"k1", b"v1\x00\x01", (("a", b"b"), ("c", None)))
NULL: Row = (None, None, ())


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (r"%t %p %o %k %v\n", b"orders 3 5 k1 v1\x00\x01\norders 3 6  \n"),
        ("%T,%K,%V,%H;", b"6,2,4,2;6,0,0,0;"),
        ("%h{%k=%v,%K%V }|", b"a=b,11 c=,10 ||"),
        ("%e %x %y %i;", b"7 4000 3 1;7 4000 3 2;"),
        ("%[%|%];", b"189;189;"),
        ("%%%{%};", b"%{};%{};"),
        ("%v{hex} %k{base64} %k{base64raw};", b"76310001 azE= azE;  ;"),
        ("%K{big32}%K{little16}%K{byte}%K{hex8}%K{bool}", b"\0\0\0\2\2\0\x0202true" + b"\0" * 7 + b"00false"),
        ("%d{strftime[%F %T]};", b"2023-11-14 22:13:20;" * 2),
        ("%d{go##2006-01-02T15:04:05.000Z07:00##};", b"2023-11-14T22:13:20.123Z;" * 2),
        ("%d{go[Mon Jan _2 3:04PM 2006 MST -0700]};", b"Tue Nov 14 10:13PM 2023 UTC +0000;" * 2),
        ("%d %d{hex};", b"1700000000123 18bcfe5687b;" * 2),
        ("%a{compression} %a{compression;hex8} %a{control-bit;bool};", b"none 00 false;" * 2),
        ("%v{unpack[>h<h$]};", b"30257256;%!%s(have 0 bytes, need 2)%!%s(have 0 bytes, need 2);"),
        ("%s %S %R %h;", b"v1\x00\x01 4 \0\0\0\4 a=b,c=NULL; -1 \xff\xff\xff\xff ;"),
    ],
)
def test_rpks_formats(layout: str, expected: bytes) -> None:
    if "unpack" in layout:
        # a null is written as the text for nulls, and not taken apart
        assert rendered(rpk_template(layout), ONE, (b"", b"", ())) == expected
    else:
        assert rendered(rpk_template(layout), ONE, NULL) == expected


def test_kcats_formats() -> None:
    layout = r"%t [%p] at %o: %k %K %s %S %h %T %%\n\x41\102\q"
    assert rendered(kcat_template(layout), ONE, NULL) == (
        b"orders [3] at 5: k1 2 v1\x00\x01 4 a=b,c=NULL 1700000000123 %\nAfq"
        b"orders [3] at 6:  -1  -1  1700000000123 %\nAfq"
    )
    assert rendered(kcat_template("%k %s;", b"NULL"), NULL) == b"NULL NULL;"
    assert rendered(kcat_template("%R%s"), ONE) == struct.pack(">i", 4) + b"v1\x00\x01"


def test_texts_up_to_a_literal_sizes_regular_expressions_and_json_are_read() -> None:
    def pairs(layout: str, data: bytes) -> list[tuple[bytes | None, bytes | None]]:
        return [(one.key, one.value) for one in read_all(layout, data)]

    assert pairs(r"%k %v\n", b"a b\nc d e\nf g") == [(b"a", b"b"), (b"c", b"d e"), (b"f", b"g")]
    assert pairs("%K{big16} foo %k%V{3}%v", b"\0\1 foo kabc") == [(b"k", b"abc")]
    assert pairs("%v{re#[a-c]+#}%k{re([0-9]*)};", b"abc12;a;") == [(b"12", b"abc"), (b"", b"a")]
    assert pairs(r"%v{json} %k\n", b'{"a": [1, "} \\" x"]} k\n 12 l\n') == [
        (b"k", b'{"a":[1,"} \\" x"]}'),
        (b"l", b"12"),
    ]
    assert pairs("%v{base64}\\n", base64.b64encode(b"\xff\xfe") + b"\n") == [(None, b"\xff\xfe")]
    for layout in ("%k%v", "%h{%k=%v }", "%K{0}%k", "%V%V%v", "%q", "%k{", "%v{re[(]}", "%V%v{json}", ""):
        with pytest.raises(UsageError):
            InputTemplate(layout)
