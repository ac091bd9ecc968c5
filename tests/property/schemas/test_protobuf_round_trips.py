"""Random descriptors, printed and parsed, give the same descriptor, and always the same text."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    Edition,
    EnumDescriptorProto,
    FeatureSet,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.message import Message
from google.protobuf.text_encoding import CEscape
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.schemas.protobuf.protobuf_format import ProtobufFormat

Field = FieldDescriptorProto
SCALARS = [
    kind
    for kind in Field.Type.values()
    if kind not in (Field.TYPE_GROUP, Field.TYPE_MESSAGE, Field.TYPE_ENUM)
]
INTEGERS = {Field.TYPE_INT32, Field.TYPE_INT64, Field.TYPE_SINT32, Field.TYPE_SFIXED64}
PACKABLE = [kind for kind in SCALARS if kind not in (Field.TYPE_STRING, Field.TYPE_BYTES)]
KEYS = [Field.TYPE_INT32, Field.TYPE_STRING, Field.TYPE_BOOL, Field.TYPE_FIXED64]
# Few names, among them names that hide each other, and keywords of the language.
NAMES = [
    "a",
    "b",
    "p",
    "google",
    "protobuf",
    "message",
    "option",
    "string",
    "group",
    "inner",
    "M",
    "N",
    "Any",
]
OPTION_NUMBER = 50_001
TEXTS = st.text(st.sampled_from("aé€\"\\'\n\x01{};/*"), max_size=5)


@dataclass
class Scope:
    """The names in scope: messages and packages by their full names."""

    name: str
    taken: set[str] = field(default_factory=set)

    def inner(self, name: str) -> str:
        return f"{self.name}.{name}" if self.name else name


@dataclass
class Made:
    """A file under construction."""

    draw: st.DrawFn
    file: FileDescriptorProto
    messages: list[str] = field(default_factory=list)
    enums: list[tuple[str, list[str]]] = field(default_factory=list)
    constants: int = 0

    @property
    def proto2(self) -> bool:
        return self.file.syntax == ""

    def unused(self, scope: Scope, *, capital: bool = False) -> str | None:
        base = self.draw(st.sampled_from(NAMES))
        name = base.capitalize() if capital else base
        for _ in range(3):
            if not {name, name.lower(), f"{name.capitalize()}Entry"} & scope.taken:
                scope.taken |= {name, name.lower(), f"{name.capitalize()}Entry"}
                return name
            name += "x"
        return None


@st.composite
def files(draw: st.DrawFn) -> FileDescriptorProto:
    """A valid file of any syntax, with everything that a text can express."""
    file = FileDescriptorProto(name="default")
    if package := draw(st.sampled_from(["", "p", "a.b", "google.a", "message"])):
        file.package = package
    syntax = draw(st.sampled_from(["", "proto3", "editions"]))
    if syntax:
        file.syntax = syntax
    if syntax == "editions":
        file.edition = Edition.EDITION_2023
    made = Made(draw, file)
    scope = Scope(file.package, set() if file.package else {"google"})
    if draw(st.booleans()):
        file.dependency.append("google/protobuf/any.proto")
        file.public_dependency.append(0)
        made.messages.append("google.protobuf.Any")
    if draw(st.booleans()):
        file.options.java_package = draw(TEXTS)
    option = _custom_option(made, scope)
    for _ in range(draw(st.integers(0, 2))):
        if (enum := _enum(made, scope)) is not None:
            file.enum_type.append(enum)
    for _ in range(draw(st.integers(1, 3))):
        _message(made, scope, file.message_type.add(), option, depth=0)
    _service(made, scope)
    if not file.message_type[0].name:
        file.message_type[0].name = "Only"
    return file


def _custom_option(made: Made, scope: Scope) -> str | None:
    name = made.unused(scope)
    if name is None or not made.draw(st.integers(0, 3)):
        return None
    made.file.dependency.append("google/protobuf/descriptor.proto")
    made.file.extension.add(
        name=name,
        number=OPTION_NUMBER,
        extendee=".google.protobuf.FieldOptions",
        type=Field.TYPE_INT32,
        label=Field.LABEL_OPTIONAL,
    )
    return name


def _enum(made: Made, scope: Scope) -> EnumDescriptorProto | None:
    name = made.unused(scope)
    if name is None:
        return None
    enum = EnumDescriptorProto(name=name)
    for number in [0, *made.draw(st.lists(st.integers(-5, 50), unique=True, max_size=3))]:
        if number or not enum.value:
            made.constants += 1
            enum.value.add(name=f"C{made.constants}", number=number)
    if made.draw(st.booleans()):
        made.constants += 1
        enum.value.add(name=f"C{made.constants}", number=0).options.deprecated = True
        enum.options.allow_alias = True
    if made.draw(st.booleans()):
        enum.reserved_range.add(start=60, end=made.draw(st.sampled_from([60, 61, 2**31 - 1])))
        enum.reserved_name.append("gone")
    made.enums.append((scope.inner(name), [value.name for value in enum.value]))
    return enum


def _message(made: Made, scope: Scope, message: DescriptorProto, option: str | None, depth: int) -> None:
    name = made.unused(scope) or f"Made{len(made.messages)}"
    message.name = name
    inner = Scope(scope.inner(name))
    made.messages.append(inner.name)
    draw = made.draw
    if draw(st.booleans()):
        message.options.deprecated = True
    if draw(st.booleans()):
        message.reserved_range.add(start=900, end=draw(st.sampled_from([901, 950])))
        message.reserved_range.add(start=1000, end=2**29)
        message.reserved_name.append("gone")
    if made.proto2 and draw(st.booleans()):
        message.extension_range.add(start=500, end=600)
    if depth < 2:
        for _ in range(draw(st.integers(0, 2))):
            what = draw(st.sampled_from(["enum", "message", "fields"]))
            if what == "enum" and (enum := _enum(made, inner)) is not None:
                message.enum_type.append(enum)
            elif what == "message":
                _message(made, inner, message.nested_type.add(), option, depth + 1)
            else:
                _fields(made, inner, message, option)
    _fields(made, inner, message, option)
    _oneof(made, inner, message)
    _synthetic_oneofs(message)


def _fields(made: Made, scope: Scope, message: DescriptorProto, option: str | None) -> None:
    for _ in range(made.draw(st.integers(0, 3))):
        number = made.draw(st.integers(1, 400))
        if number in {other.number for other in message.field}:
            continue
        name = made.unused(scope)
        if name is None:
            continue
        one = message.field.add(name=name, number=number, label=Field.LABEL_OPTIONAL)
        kinds = ["scalar", "message", "enum", "map", *(["group"] if made.proto2 else [])]
        match made.draw(st.sampled_from(kinds)):
            case "map":
                _map(made, scope, message, one)
            case "group":
                _group(made, scope, message, one)
            case "message":
                one.type, one.type_name = Field.TYPE_MESSAGE, "." + made.draw(st.sampled_from(made.messages))
                _label(made, one)
            case "enum" if made.enums:
                full_name, constants = made.draw(st.sampled_from(made.enums))
                one.type, one.type_name = Field.TYPE_ENUM, f".{full_name}"
                _label(made, one)
                if made.proto2 and one.label == Field.LABEL_OPTIONAL and made.draw(st.booleans()):
                    one.default_value = made.draw(st.sampled_from(constants))
            case _:
                one.type = made.draw(st.sampled_from(SCALARS))
                _label(made, one)
                _default(made, one)
        _field_options(made, one, option)


def _label(made: Made, one: FieldDescriptorProto) -> None:
    kinds = ["plain", "repeated"]
    kinds += {"": ["required"], "proto3": ["optional"], "editions": []}[made.file.syntax]
    match made.draw(st.sampled_from(kinds)):
        case "repeated":
            one.label = Field.LABEL_REPEATED
            if one.type in PACKABLE and made.file.syntax != "editions" and made.draw(st.booleans()):
                one.options.packed = made.draw(st.booleans())
        case "required":
            one.label = Field.LABEL_REQUIRED
        case "optional":
            one.proto3_optional = True


def _default(made: Made, one: FieldDescriptorProto) -> None:
    if made.file.syntax == "proto3" or one.label == Field.LABEL_REPEATED or not made.draw(st.booleans()):
        return
    if one.type in INTEGERS:
        one.default_value = str(made.draw(st.integers(-(2**31), 2**31 - 1)))
    elif one.type == Field.TYPE_BOOL:
        one.default_value = made.draw(st.sampled_from(["true", "false"]))
    elif one.type == Field.TYPE_STRING:
        one.default_value = made.draw(TEXTS)
    elif one.type == Field.TYPE_BYTES:
        one.default_value = CEscape(made.draw(st.binary(max_size=4)), False)
    elif one.type == Field.TYPE_DOUBLE:
        one.default_value = made.draw(st.sampled_from(["inf", "-inf", "nan", "-0.5", "1e+100", "0"]))


def _field_options(made: Made, one: FieldDescriptorProto, option: str | None) -> None:
    if made.draw(st.booleans()):
        one.json_name = f"json{one.number}"
    if made.draw(st.booleans()):
        one.options.deprecated = made.draw(st.booleans())
    if option is not None and made.draw(st.booleans()):
        one.options.MergeFromString(b"\x88\xb5\x18" + bytes([made.draw(st.integers(0, 127))]))
    plain_scalar = (
        one.label == Field.LABEL_OPTIONAL and one.type in SCALARS and not one.HasField("default_value")
    )
    if made.file.syntax == "editions" and plain_scalar and made.draw(st.booleans()):
        one.options.features.field_presence = FeatureSet.FieldPresence.LEGACY_REQUIRED


def _map(made: Made, scope: Scope, message: DescriptorProto, one: FieldDescriptorProto) -> None:
    entry = message.nested_type.add(name=f"{one.name.capitalize()}Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=Field.LABEL_OPTIONAL, type=made.draw(st.sampled_from(KEYS)))
    value = entry.field.add(name="value", number=2, label=Field.LABEL_OPTIONAL)
    if made.draw(st.booleans()):
        value.type = made.draw(st.sampled_from(SCALARS))
    else:
        value.type, value.type_name = Field.TYPE_MESSAGE, "." + made.draw(st.sampled_from(made.messages))
    one.label, one.type, one.type_name = (
        Field.LABEL_REPEATED,
        Field.TYPE_MESSAGE,
        f".{scope.inner(entry.name)}",
    )


def _group(made: Made, scope: Scope, message: DescriptorProto, one: FieldDescriptorProto) -> None:
    one.name = one.name.lower()
    group = message.nested_type.add(name=one.name.capitalize())
    one.type, one.type_name = Field.TYPE_GROUP, f".{scope.inner(group.name)}"
    _label(made, one)
    _fields(made, Scope(scope.inner(group.name)), group, None)


def _oneof(made: Made, scope: Scope, message: DescriptorProto) -> None:
    name = made.unused(scope)
    if name is None or not made.draw(st.booleans()):
        return
    message.oneof_decl.add(name=name)
    for number in range(401, 401 + made.draw(st.integers(1, 3))):
        member = made.unused(scope) or f"member{number}"
        kind = made.draw(st.sampled_from(SCALARS))
        message.field.add(name=member, number=number, label=Field.LABEL_OPTIONAL, type=kind, oneof_index=0)


def _synthetic_oneofs(message: DescriptorProto) -> None:
    names = {one.name for one in message.field} | {one.name for one in message.oneof_decl}
    for one in message.field:
        if one.proto3_optional:
            name = f"_{one.name}"
            assert name not in names
            one.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=name)


def _service(made: Made, scope: Scope) -> None:
    name = made.unused(scope)
    if name is None or not made.draw(st.booleans()):
        return
    service = made.file.service.add(name=name)
    for number in range(made.draw(st.integers(0, 2))):
        method = service.method.add(
            name=f"Call{number}",
            input_type="." + made.draw(st.sampled_from(made.messages)),
            output_type="." + made.draw(st.sampled_from(made.messages)),
        )
        if made.draw(st.booleans()):
            method.server_streaming = True
            method.options.deprecated = True


def in_base64(file: FileDescriptorProto) -> str:
    return base64.b64encode(file.SerializeToString()).decode()


def descriptor_of(text: str) -> FileDescriptorProto:
    serialized = ProtobufFormat().parse(text, {}).formatted("serialized")
    file = FileDescriptorProto.FromString(base64.b64decode(serialized))
    _forget_order_of_units(file)
    return file


def _forget_order_of_units(message: Message) -> None:
    """A field of a oneof is declared where the oneof is: fields may change their order, messages not."""
    if isinstance(message, DescriptorProto):
        message.field.sort(key=lambda one: one.number)
    for field_, value in message.ListFields():
        if field_.message_type is not None and field_.is_repeated:
            for one in value:
                _forget_order_of_units(one)


@settings(max_examples=80, deadline=None)
@given(files())
def test_a_printed_descriptor_is_parsed_to_the_same(file: FileDescriptorProto) -> None:
    schema = ProtobufFormat().parse(in_base64(file), {})

    expected = FileDescriptorProto()
    expected.CopyFrom(file)
    _forget_order_of_units(expected)
    assert descriptor_of(in_base64(file)) == expected
    assert descriptor_of(schema.canonical_text) == expected
    assert ProtobufFormat().parse(schema.canonical_text, {}).canonical_text == schema.canonical_text


@settings(max_examples=50, deadline=None)
@given(files(), st.randoms(use_true_random=False))
def test_order_that_means_nothing_is_gone_in_the_normal_form(
    file: FileDescriptorProto, random: object
) -> None:
    other = FileDescriptorProto()
    other.CopyFrom(file)
    _shuffle(other, random)

    one, two = ProtobufFormat().parse(in_base64(file), {}), ProtobufFormat().parse(in_base64(other), {})

    assert one.normalized() == two.normalized()
    normal = ProtobufFormat().parse(one.normalized(), {})
    assert normal.normalized() == one.normalized()
    assert normal.incompatibilities(one) == []
    assert one.incompatibilities(normal) == []
    for name in _plain_messages(file):
        assert normal.index_path(name) == one.index_path(name)


def _shuffle(message: Message, random: object) -> None:
    """Turn the order of enums, reserved names and ranges, of imports and services around."""
    if isinstance(message, FileDescriptorProto):
        public = {message.dependency[index] for index in message.public_dependency}
        paths = list(reversed(message.dependency))
        message.dependency[:] = paths
        message.public_dependency[:] = [index for index, path in enumerate(paths) if path in public]
    if isinstance(message, FileDescriptorProto | DescriptorProto):
        _reverse(message.enum_type)
        for enum in message.enum_type:
            first, *others = [_copied(value) for value in enum.value]
            if not any(value.number == first.number for value in others):
                random.shuffle(others)  # type: ignore[attr-defined] # a random.Random
            del enum.value[:]
            enum.value.extend([first, *others])
    if isinstance(message, DescriptorProto):
        _reverse(message.reserved_range)
    for field_, value in message.ListFields():
        if field_.message_type is not None and field_.is_repeated:
            for one in value:
                _shuffle(one, random)


def _reverse(container: object) -> None:
    copies = [_copied(one) for one in container]  # type: ignore[attr-defined] # a repeated field
    del container[:]  # type: ignore[attr-defined]
    container.extend(reversed(copies))  # type: ignore[attr-defined]


def _copied(message: Message) -> Message:
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def _plain_messages(file: FileDescriptorProto) -> list[str]:
    """The full names of messages that are written as such: neither a map's nor a group's."""
    found: list[str] = []
    waiting = [(file.package, message, False) for message in file.message_type]
    while waiting:
        scope, message, owned = waiting.pop()
        name = f"{scope}.{message.name}" if scope else message.name
        if not owned:
            found.append(name)
        groups = {one.type_name for one in message.field if one.type == Field.TYPE_GROUP}
        waiting += [
            (name, nested, owned or nested.options.map_entry or f".{name}.{nested.name}" in groups)
            for nested in message.nested_type
        ]
    return found
