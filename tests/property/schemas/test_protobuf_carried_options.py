"""Options whose file is missing mean the same once the file is given, whatever their values and layout."""

from __future__ import annotations

import json

from hypothesis import event, given, settings
from hypothesis import strategies as st

from ottla.schemas.format import InvalidSchema
from ottla.schemas.protobuf.protobuf_format import ProtobufFormat
from support.exploration import examples

DECLARED = {
    "o.proto": """
    syntax = "proto2"; package q; import "google/protobuf/descriptor.proto";
    enum Color { RED = 0; BLUE = 5; }
    message Rules {
      repeated int64 low = 1; repeated string words = 2; map<string, Rules> by_name = 3;
      repeated Rules inner = 4; repeated Color color = 5; repeated double real = 6; repeated bool flag = 7;
      optional Rules one = 8; extensions 100 to 200;
      extend Rules { repeated Rules more = 100; optional Rules only = 101; }
    }
    extend google.protobuf.FieldOptions { repeated Rules rules = 50000; optional Rules single = 50001; }
    extend google.protobuf.MessageOptions { repeated Rules of_message = 50000; repeated string text = 50001; }
    extend google.protobuf.EnumValueOptions { optional Rules of_value = 50000; repeated uint64 big = 50001; }
    """
}
gaps = st.sampled_from(["", " ", "\n", "\t", " /* } ; { */ ", " // ' \n"])
joins = st.sampled_from([" ", ", ", "; ", ",", "\n"])
integers = st.integers(-(1 << 63), (1 << 63) - 1).map(str) | st.sampled_from(["0x1F", "017", "- 3"])
reals = st.floats(allow_nan=True).map(repr) | st.sampled_from(["inf", "-inf", "1e3", ".5", "7", "-1.5E-3"])
letters = st.text(st.sampled_from("ab \\\"'é{}[]()<>;,=/*#\n\0"), max_size=6)
words = st.builds(
    lambda text, quote: (
        json.dumps(text)
        if quote == '"'
        else "'"
        + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\0", "\\000")
        + "'"
    ),
    letters,
    st.sampled_from("\"'"),
).map(lambda text: text.replace("\\u0000", "\\000").replace("\\u00e9", "é"))


@st.composite
def listed(draw: st.DrawFn, items: st.SearchStrategy[str]) -> str:
    """A value, or a list of some."""
    if draw(st.booleans()):
        return draw(items)
    values = draw(st.lists(items, max_size=3))
    return "[" + ",".join(draw(gaps) + value + draw(gaps) for value in values) + "]"


@st.composite
def rules(draw: st.DrawFn, depth: int = 2) -> str:
    """A value of the message Rules, between braces or angles."""
    names = ["low", "words", "color", "real", "flag"] + (["inner", "by_name", "ext", "one"] if depth else [])
    said: list[str] = []
    for name in draw(st.lists(st.sampled_from(names), max_size=3, unique=True)):
        match name:
            case "low":
                value = f"low:{draw(gaps)}{draw(listed(integers))}"
            case "words":
                value = f"words: {draw(listed(st.lists(words, min_size=1, max_size=2).map(' '.join)))}"
            case "color":
                value = f"color : {draw(listed(st.sampled_from(['RED', 'BLUE', '5'])))}"
            case "real":
                value = f"real: {draw(listed(reals))}"
            case "flag":
                value = f"flag: {draw(listed(st.sampled_from(['true', 'false', '1', 't'])))}"
            case "by_name":
                value = f"by_name {{ key: {draw(words)} value {draw(rules(depth - 1))} }}"
            case "ext":
                value = f"[q.Rules.more]{draw(st.sampled_from([':', ' ']))} {draw(rules(depth - 1))}"
            case _:
                value = f"{name}{draw(st.sampled_from([':', ' ', ': ']))}{draw(rules(depth - 1))}"
        said.append(value + draw(joins))
    opening, closing = draw(st.sampled_from([("{", "}"), ("<", ">")])) if depth < 2 else ("{", "}")
    return opening + draw(gaps) + "".join(said) + draw(gaps) + closing


@st.composite
def texts(draw: st.DrawFn) -> str:
    """A schema with options of all kinds on its elements."""
    in_brackets = st.one_of(
        rules().map(lambda value: f"(q.rules) = {value}"),
        integers.map(lambda value: f"(q.single).low = {value.replace('- ', '-')}"),
        words.map(lambda value: f"(.q.single).one.words = {value}"),
        reals.map(lambda value: f"(q.single).(q.Rules.only).real = {value}"),
        st.just("deprecated = true"),
    )
    options = draw(st.lists(in_brackets, min_size=1, max_size=3, unique=True))
    statements = "".join(
        f"option (q.of_message) = {value};{draw(gaps)}" for value in draw(st.lists(rules(), max_size=2))
    )
    strings = "".join(f"option (q.text) = {value}; " for value in draw(st.lists(words, max_size=2)))
    constant = draw(
        st.sampled_from(["", "[(q.big) = 0xFFFFFFFFFFFFFFFF]", f"[(q.of_value) = {draw(rules())}]"])
    )
    return (
        f'syntax = "proto3";{draw(gaps)}import "o.proto"; message M {{ {statements}{strings}'
        f"int32 a = 1 [{', '.join(options)}]; enum E {{ A = 0 {constant}; }} }}"
    )


def accepted(text: str) -> str | None:
    """The canonical text with the options' file at hand; None if protoc refuses the options."""
    try:
        return ProtobufFormat().parse(text, DECLARED).canonical_text
    except InvalidSchema:
        return None


@settings(max_examples=examples(25, 1_000), deadline=None)
@given(texts())
def test_carried_options_mean_the_same_when_their_file_is_given(text: str) -> None:
    expected = accepted(text)
    event("accepted" if expected is not None else "refused")
    if expected is None:
        return

    carried = ProtobufFormat().parse(text, {})

    assert accepted(carried.canonical_text) == expected
    assert ProtobufFormat().parse(carried.canonical_text, {}).canonical_text == carried.canonical_text
    assert accepted(carried.normalized()) is not None
    again = ProtobufFormat().parse(carried.normalized(), {})
    assert again.normalized() == carried.normalized()
