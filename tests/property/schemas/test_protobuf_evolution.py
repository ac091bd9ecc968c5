"""Compatible schemas are really so: data written with one keeps its values when it is read with the other.

Schemas are one message of fields in a few kinds, with a oneof or two. Any change may be made; if the
comparison accepts it, that is proved with real messages. And steps that are known to be allowed must be
accepted. Two changes lose data by the registry's rules, on purpose: they are told apart by name here, and the
rest of the message must still be kept.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from ottla.schemas.protobuf.compatibility import is_map
from ottla.schemas.protobuf.protobuf_format import ProtobufFormat, ProtobufSchema
from support.exploration import examples

GROUPS = [
    ["int32", "uint64", "bool", "E"],
    ["sint32", "sint64"],
    ["string", "bytes"],
    ["fixed32", "sfixed32"],
    ["double"],
    ["N"],
    ["O"],
    ["map<string, int32>", "map<string, uint64>"],
    ["map<string, string>"],
]
KINDS = [kind for group in GROUPS for kind in group]
GROUP_OF = {kind: group for group in GROUPS for kind in group}
ANY_LABEL = {"string", "bytes", "N", "O"}
NUMERIC = {kind for kind in KINDS if not kind.startswith("map")} - ANY_LABEL
LABELS = ["", "optional", "required", "repeated"]
NUMBERS = range(1, 5)
ONEOFS = ["x", "y"]


@dataclass(frozen=True)
class Member:
    """A field: its label is empty, `optional`, `required` or `repeated`; one in a oneof has none."""

    kind: str
    label: str = ""
    oneof: str | None = None
    name: str = "f"


@dataclass(frozen=True)
class Model:
    """A schema. `inner` is the kind of the field of the message N."""

    members: dict[int, Member]
    inner: str = "int32"
    others: int = 0
    constants: int = 2
    is_proto2: bool = False
    """Of proto2, fields that have no label and are in no oneof are optional; of proto3, none is required."""

    def label(self, number: int) -> str:
        """The label of a field in the text."""
        member = self.members[number]
        if member.oneof is not None or member.kind.startswith("map"):
            return ""
        if self.is_proto2:
            return member.label or "optional"
        return "" if member.label == "required" else member.label

    def changed(self, number: int, **changes: Any) -> Model:
        member = dataclasses.replace(self.members[number], **changes)
        return dataclasses.replace(self, members=self.members | {number: member})

    def parsed(self) -> ProtobufSchema:
        lines: list[str] = []
        oneofs: dict[str, list[str]] = {}
        for number, member in self.members.items():
            line = f"{member.kind} {member.name}{number} = {number};"
            if member.oneof is not None:
                oneofs.setdefault(member.oneof, []).append(line)
            else:
                lines.append(f"{self.label(number)} {line}")
        lines += [f"oneof {name} {{ {' '.join(inside)} }}" for name, inside in oneofs.items()]
        constants = " ".join(f"E{number} = {number};" for number in range(self.constants))
        syntax, label = ("proto2", "optional ") if self.is_proto2 else ("proto3", "")
        text = (
            f'syntax = "{syntax}"; package p; message M {{ {" ".join(lines)} }} '
            f"message N {{ {label}{self.inner} n = 1; {label}string s = 2; }} "
            f"message O {{ {label}{self.inner} n = 1; }} "
            f"enum E {{ {constants} }} "
            + " ".join(f"message Other{number} {{}}" for number in range(self.others))
        )
        return ProtobufFormat().parse(text, {})


@st.composite
def members(draw: st.DrawFn) -> Member:
    kind = draw(st.sampled_from(KINDS))
    if kind.startswith("map"):
        return Member(kind)
    oneof = draw(st.sampled_from([None, None, *ONEOFS]))
    return Member(kind, "" if oneof else draw(st.sampled_from(LABELS)), oneof)


MODELS = st.builds(
    Model,
    st.dictionaries(st.sampled_from(NUMBERS), members(), min_size=2, max_size=4),
    st.sampled_from(["int32", "string"]),
    is_proto2=st.booleans(),
)


@st.composite
def changed(draw: st.DrawFn, old: Model) -> Model:
    """The model with one to three changes of any kind."""
    new = old
    for _ in range(draw(st.integers(1, 3))):
        number = draw(st.sampled_from(NUMBERS))
        if number not in new.members:
            new = dataclasses.replace(new, members=new.members | {number: draw(members())})
            continue
        member = new.members[number]
        plain = not member.kind.startswith("map")
        changes = ["remove", "kind", "group", "label", "oneof", "rename", "inner", "syntax"]
        match draw(st.sampled_from(changes)):
            case "syntax":
                new = dataclasses.replace(new, is_proto2=not new.is_proto2)
            case "remove":
                kept = {other: one for other, one in new.members.items() if other != number}
                new = dataclasses.replace(new, members=kept)
            case "kind":
                new = dataclasses.replace(new, members=new.members | {number: draw(members())})
            case "group":
                new = new.changed(number, kind=draw(st.sampled_from(GROUP_OF[member.kind])))
            case "label" if plain and member.oneof is None:
                new = new.changed(number, label=draw(st.sampled_from(LABELS)))
            case "oneof" if plain:
                new = new.changed(number, label="", oneof=draw(st.sampled_from([None, *ONEOFS])))
            case "rename":
                new = new.changed(number, name=member.name + "g")
            case "inner":
                new = dataclasses.replace(new, inner=draw(st.sampled_from(["int32", "bool", "string"])))
    return new


@st.composite
def data(draw: st.DrawFn, model: Model) -> Message:
    """A message of the model with any of its fields set, of each oneof one at most."""
    schema = model.parsed()
    message = schema.message_class((0,))()
    taken: set[str] = set()
    for number, member in model.members.items():
        if model.label(number) != "required" and not draw(st.integers(0, 4)):
            continue
        if member.oneof is not None and member.oneof in taken:
            continue
        taken |= {member.oneof} if member.oneof is not None else set()
        _set(message, f"{member.name}{number}", member)
    return message


def _set(message: Message, name: str, member: Member) -> None:
    if member.kind.startswith("map"):
        getattr(message, name)["k"] = "v" if member.kind.endswith("string>") else 1
    elif member.kind in ("N", "O"):
        inner = getattr(message, name).add() if member.label == "repeated" else getattr(message, name)
        inner.n = (
            "t" if inner.DESCRIPTOR.fields_by_name["n"].type == inner.DESCRIPTOR.fields[0].TYPE_STRING else 1
        )
        inner.SetInParent()
    else:
        values = {"string": "text", "bytes": b"text", "float": 1.5, "double": 1.5, "bool": True}
        value = values.get(member.kind, 1)
        if member.label == "repeated":
            getattr(message, name).extend([value, value])
        else:
            setattr(message, name, value)


def seen(message: Message) -> dict[int, list[Any]]:
    """The content of a message, by field numbers: lists of values as on the wire."""
    found: dict[int, list[Any]] = {}
    for one, value in message.ListFields():
        if is_map(one):
            found[one.number] = [sorted((key, _plain(inner)) for key, inner in value.items())]
        elif one.is_repeated:
            found[one.number] = [_plain(inner) for inner in value]
        else:
            found[one.number] = [_plain(value)]
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return seen(value)
    return value.encode() if isinstance(value, str) else int(value) if isinstance(value, bool) else value


def assert_kept(written: Message, reader: ProtobufSchema, lost: set[int] | None = None) -> None:
    """Check that the fields of both schemas hold the written values; those of `lost` may hold none."""
    read = reader.message_class((0,)).FromString(written.SerializeToString())
    before, after = seen(written), seen(read)
    for one in read.DESCRIPTOR.fields:
        if one.number in {other.number for other in written.DESCRIPTOR.fields}:
            expected = before.get(one.number, [])
            if one.number in (lost or set()):
                assert after.get(one.number, []) == []
            else:
                assert after.get(one.number, []) == (expected if one.is_repeated else expected[-1:])


def lost_by_the_rules(old: Model, new: Model) -> set[int]:
    """The numbers of packed fields that have lost their label: a reader of one number skips a packed list."""
    return {
        number
        for number in old.members.keys() & new.members.keys()
        if old.label(number) == "repeated" and not old.is_proto2
        if new.label(number) == "" and new.members[number].kind in NUMERIC
    }


def refused_by_the_rules(old: Model, new: Model) -> set[int]:
    """The numbers of strings and messages that have become required: data need not have them."""
    return {
        number
        for number in old.members.keys() & new.members.keys()
        if new.label(number) == "required" and old.label(number) in ("optional", "repeated")
        if new.members[number].kind not in NUMERIC
    }


PLAIN = [kind for kind in KINDS if not kind.startswith("map")]
# Kinds that are equal on the wire, or seem to be, which are seldom drawn together by chance.
NEAR_KINDS = [GROUPS[0] + GROUPS[1], GROUPS[2] + ["N"], GROUPS[3] + GROUPS[4], PLAIN]
ONE_FIELD = st.builds(
    lambda member, is_proto2: Model({1: member}, is_proto2=is_proto2),
    st.builds(Member, st.sampled_from(PLAIN), st.sampled_from(LABELS)),
    st.booleans(),
)
IN_ONEOFS = st.builds(
    lambda oneofs: Model({number: Member("int32", "", oneof) for number, oneof in enumerate(oneofs, 1)}),
    st.lists(st.sampled_from([None, *ONEOFS]), min_size=2, max_size=3),
)


def assert_kept_if_compatible(drawn: st.DataObject, old: Model, new: Model) -> None:
    reader = new.parsed()
    reasons = reader.incompatibilities(old.parsed())
    event("compatible" if not reasons else "not compatible")
    if reasons:
        return
    written = drawn.draw(data(old), "written")
    assert_kept(written, reader, lost_by_the_rules(old, new))
    read = reader.message_class((0,)).FromString(written.SerializeToString())
    missing = {int(name.removeprefix("f").lstrip("g")) for name in read.FindInitializationErrors()}
    assert missing <= refused_by_the_rules(old, new)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_compatible_changes_keep_written_values(drawn: st.DataObject) -> None:
    old = drawn.draw(MODELS, "old")

    assert_kept_if_compatible(drawn, old, drawn.draw(changed(old), "new"))


@settings(max_examples=examples(80), deadline=None)
@given(st.data(), ONE_FIELD, ONE_FIELD)
def test_a_compatible_change_of_a_field_keeps_its_values(
    drawn: st.DataObject, old: Model, new: Model
) -> None:
    near = drawn.draw(st.sampled_from(NEAR_KINDS))
    old = old.changed(1, kind=drawn.draw(st.sampled_from(near)))
    new = new.changed(1, kind=drawn.draw(st.sampled_from(near)))

    assert_kept_if_compatible(drawn, old, new)


@settings(max_examples=examples(60), deadline=None)
@given(st.data(), IN_ONEOFS, IN_ONEOFS)
def test_compatible_moves_between_oneofs_keep_written_values(
    drawn: st.DataObject, old: Model, new: Model
) -> None:
    assert_kept_if_compatible(drawn, old, new)


@dataclass(frozen=True)
class Step:
    """A change of a schema that its rules allow; in both directions, or for reading old data only."""

    change: Callable[[st.DataObject, Model], Model]
    forward: bool = True
    name: str = field(default="", kw_only=True)


def _free(model: Model) -> list[int]:
    return [number for number in NUMBERS if number not in model.members]


def _alone(model: Model) -> list[int]:
    return [number for number, member in model.members.items() if member.oneof is None]


def _add(drawn: st.DataObject, model: Model) -> Model:
    if not _free(model):
        return model
    number = drawn.draw(st.sampled_from(_free(model)))
    member = dataclasses.replace(drawn.draw(members()), oneof=None)
    return dataclasses.replace(model, members=model.members | {number: member})


def _remove(drawn: st.DataObject, model: Model) -> Model:
    if not _alone(model):
        return model
    gone = drawn.draw(st.sampled_from(_alone(model)))
    kept = {number: member for number, member in model.members.items() if number != gone}
    return dataclasses.replace(model, members=kept)


def _within_group(drawn: st.DataObject, model: Model) -> Model:
    number = drawn.draw(st.sampled_from(sorted(model.members))) if model.members else 0
    if not number:
        return model
    return model.changed(number, kind=drawn.draw(st.sampled_from(GROUP_OF[model.members[number].kind])))


def _rename(drawn: st.DataObject, model: Model) -> Model:
    if not model.members:
        return model
    number = drawn.draw(st.sampled_from(sorted(model.members)))
    return model.changed(number, name=model.members[number].name + "g")


def _other_label(drawn: st.DataObject, model: Model) -> Model:
    able = [number for number in _alone(model) if model.members[number].kind in ANY_LABEL]
    if not able:
        return model
    return model.changed(
        drawn.draw(st.sampled_from(able)), label=drawn.draw(st.sampled_from(["", "repeated"]))
    )


def _number_label(drawn: st.DataObject, model: Model) -> Model:
    able = [number for number in _alone(model) if not model.label(number)]
    able = [number for number in able if model.members[number].kind in NUMERIC]
    if not able:
        return model
    return model.changed(drawn.draw(st.sampled_from(able)), label="repeated")


def _presence(drawn: st.DataObject, model: Model) -> Model:
    able = [number for number in _alone(model) if model.members[number].label != "repeated"]
    able = [number for number in able if not model.members[number].kind.startswith("map")]
    if not able:
        return model
    return model.changed(
        drawn.draw(st.sampled_from(able)), label=drawn.draw(st.sampled_from(["", "optional"]))
    )


def _to_new_oneof(drawn: st.DataObject, model: Model) -> Model:
    used = {member.oneof for member in model.members.values()}
    able = [number for number in _alone(model) if model.members[number].label != "repeated"]
    able = [number for number in able if not model.members[number].kind.startswith("map")]
    unused = [name for name in ONEOFS if name not in used]
    if not able or not unused:
        return model
    return model.changed(drawn.draw(st.sampled_from(able)), label="", oneof=unused[0])


def _to_oneof(drawn: st.DataObject, model: Model) -> Model:
    used = [member.oneof for member in model.members.values() if member.oneof is not None]
    if not _free(model) or not used:
        return model
    number = drawn.draw(st.sampled_from(_free(model)))
    return dataclasses.replace(model, members=model.members | {number: Member("int32", "", used[0])})


def _add_message(_drawn: st.DataObject, model: Model) -> Model:
    return dataclasses.replace(model, others=model.others + 1)


def _add_constant(_drawn: st.DataObject, model: Model) -> Model:
    return dataclasses.replace(model, constants=model.constants + 1)


STEPS = [
    Step(_add, name="add a field"),
    Step(_remove, name="remove a field"),
    Step(_within_group, name="another type of the group"),
    Step(_rename, name="rename a field"),
    Step(_other_label, name="repeated or not"),
    Step(_number_label, forward=False, name="a number becomes repeated"),
    Step(_presence, name="optional or not"),
    Step(_to_new_oneof, name="move a field to a new oneof"),
    Step(_to_oneof, forward=False, name="add a field to a oneof"),
    Step(_add_message, forward=False, name="add a message"),
    Step(_add_constant, name="add a constant"),
]


@pytest.mark.parametrize("step", STEPS, ids=[step.name for step in STEPS])
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(drawn=st.data())
def test_steps_that_are_allowed_stay_compatible(drawn: st.DataObject, step: Step) -> None:
    old = dataclasses.replace(drawn.draw(MODELS, "old"), is_proto2=False)  # proto3 has no required fields
    new = step.change(drawn, old)
    assume(new != old)
    reader, writer = new.parsed(), old.parsed()

    assert reader.incompatibilities(writer) == []
    assert_kept(drawn.draw(data(old), "old data"), reader)
    if step.forward:
        assert writer.incompatibilities(reader) == []
        assert_kept(drawn.draw(data(new), "new data"), writer)


def test_each_model_that_is_drawn_is_a_schema_with_its_fields() -> None:
    model = Model({1: Member("map<string, int32>"), 2: Member("N", "", "x"), 3: Member("E", "repeated")})

    message = model.parsed().message_class((0,))

    assert [one.name for one in message.DESCRIPTOR.fields] == ["f1", "f3", "f2"]
