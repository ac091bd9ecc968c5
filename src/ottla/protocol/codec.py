"""Compiles a message's table into Python: its initialiser, and an encoder and a decoder for each version.

Theory of operation. The generated function of a (message, version) is one flat piece of code: nested structs
and arrays become nested loops, not calls. Neighbouring fields of fixed size are packed and unpacked by one
`struct.Struct`, which also takes along the length prefix of the variable field behind them; a compact length
or tag count is read as one byte, with a call only where it continues. Buffers are sliced only after their end
was compared with the size of the message.

A decoder trusts no count: an array's count times the least size of one element must fit in what is left. An
array may have MAX_ELEMENTS elements and a tag section MAX_TAGGED_FIELDS, as in Apache Kafka 4.4, and all of
one message together MAX_ELEMENTS (a request, which anybody may send, MAX_REQUEST_ELEMENTS unless the caller
gives more), which bounds what a small hostile message can make us allocate and how long it takes to read.
Numbers count less, because they are read in one go. Tables do not recurse, so depth is bounded by them.

An encoder cuts an `error_message` that is too long for a string: it may quote what a client sent, who must
still get the answer.

There are no hand-tuned codecs beside this. Measured on CPython 3.11, a Produce request (v9, one partition)
decodes in 2.0 us here, and in 1.4 us by hand-written code for exactly this shape and without its checks; a
Fetch response (v12, one partition) encodes in 1.1 us. A whole request costs the broker ten times as much.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

from ottla.protocol import wire
from ottla.protocol.errors import MalformedMessage, TooManyElements
from ottla.protocol.fields import FRESH, Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.fields import Decoder, Encoder, MessageTable, StructTable

MAX_ELEMENTS: Final = 1_000_000
MAX_TAGGED_FIELDS: Final = 10_000
MAX_REQUEST_ELEMENTS: Final = 1 << 18
"""The most to read on an event loop; the caller reads a request of more in a thread. A request of as many
empty topics takes 0.3 s to read and 40 MB, one of MAX_ELEMENTS 1.1 s and 130 MB."""
NUMBERS_AN_ELEMENT: Final = 8
"""As many numbers of an array cost about as much as one struct."""

_FIXED: Final = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}


def _is_shared(field: Field) -> bool:
    """Whether messages share the field's default: a tagged struct of plain, immutable values."""
    if field.tag < 0 or field.array or field.default is not FRESH:
        return False
    return all(isinstance(part.kind, str) and not part.array for part in _struct(field).FIELDS)


def compile_initialiser(cls: StructTable) -> Callable[..., None]:
    """The `__init__` of a struct: keyword-only, Kafka's defaults."""
    namespace: dict[str, Any] = {"FRESH": FRESH}
    parameters = []
    body = []
    for field in cls.FIELDS:
        name = field.name
        default = f"d_{name}"
        value = name
        namespace[default] = field.default
        if _is_shared(field):
            namespace[default] = _struct(field).shared_default()
        elif field.default is FRESH:
            namespace[f"c_{name}"] = list if field.array else field.kind
            value = f"c_{name}() if {name} is FRESH else {name}"
        parameters.append(f"{name}={default}")
        body.append(f"    self.{name} = {value}")
    parameters.append("unknown_tagged_fields=None")
    body.append("    self.unknown_tagged_fields = unknown_tagged_fields")
    source = f"def __init__(self, *, {', '.join(parameters)}):\n" + "\n".join(body)
    initialiser: Callable[..., None] = _define(source, "__init__", namespace, cls.NAME)
    return initialiser


def compile_decoder(cls: MessageTable, version: int) -> Decoder:
    """The function (data, position) -> (message, position after it) of a version."""
    return _Decoding(cls, version).compile()


def compile_encoder(cls: MessageTable, version: int) -> Encoder:
    """The function (message, write) of a version; it calls `write` with each piece of the encoded message."""
    return _Encoding(cls, version).compile()


def minimum_size(cls: StructTable, version: int, flexible: bool) -> int:
    """The fewest bytes that a struct can take at a version."""
    size = 1 if flexible else 0
    for field in cls.FIELDS:
        if field.in_version(version) and not field.tagged_in(version):
            size += _field_minimum(field, version, flexible)
    return size


def _field_minimum(field: Field, version: int, flexible: bool) -> int:
    if field.array:
        return 1 if flexible else 4
    if not isinstance(field.kind, str):
        return 1 if field.nullable_in(version) else minimum_size(_struct(field), version, flexible)
    return _plain_minimum(str(field.kind), flexible and field.flexible)


def _plain_minimum(kind: str, flexible: bool) -> int:
    if kind in _FIXED:
        return struct.calcsize(">" + _FIXED[kind])
    if flexible:
        return 1
    return 2 if kind == "string" else 4


def _struct(field: Field) -> StructTable:
    assert not isinstance(field.kind, str)
    return field.kind


def _define(source: str, name: str, namespace: dict[str, Any], owner: str) -> Any:
    exec(compile(source, f"<codec of {owner}>", "exec"), namespace)
    return namespace[name]


class _Source:
    """A function under construction: its lines, its constants, the fixed-size fields not yet written out."""

    def __init__(self, cls: MessageTable, version: int) -> None:
        self.cls = cls
        self.version = version
        self.flexible = cls.FLEXIBLE_SINCE is not None and version >= cls.FLEXIBLE_SINCE
        self.lines: list[str] = []
        self.depth = 1
        self.namespace: dict[str, Any] = {}
        self.names = 0
        self.run: list[tuple[str, str]] = []

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def constant(self, prefix: str, value: object) -> str:
        for name, known in self.namespace.items():
            if known is value:
                return name
        name = f"{prefix}_{len(self.namespace)}"
        self.namespace[name] = value
        return name


def _packer(run: list[tuple[str, str]]) -> struct.Struct:
    return struct.Struct(">" + "".join(code for code, _ in run))


class _Decoding(_Source):
    """Writes a decoder. In the generated code `data`, `pos`, `size` and `budget` are what they say."""

    def compile(self) -> Decoder:
        cls = self.cls
        self.namespace.update(
            new=object.__new__,
            varint=wire.read_unsigned_varint,
            read_tags=wire.read_tags,
            uuid_of=wire.uuid_of,
            unpack=struct.unpack_from,
            bad=MalformedMessage,
            too_many=TooManyElements,
        )
        budget = MAX_REQUEST_ELEMENTS if cls.KIND == "request" else MAX_ELEMENTS
        self.emit("size = len(data)")
        target = self.struct(cls)
        self.flush()
        self.emit(f"return {target}, pos")
        source = f"def decode(data, pos, budget={budget}):\n" + "\n".join(self.lines)
        decoder: Decoder = _define(source, "decode", self.namespace, f"{cls.NAME} v{self.version}")
        return decoder

    def fixed(self, code: str, target: str) -> None:
        self.run.append((code, target))

    def flush(self) -> None:
        """Read what is pending: one unpack for the whole run."""
        run, self.run = self.run, []
        if not run:
            return
        if len(run) == 1 and run[0][0] == "B":
            self.emit(f"{run[0][1]} = data[pos]; pos += 1")
            return
        packer = _packer(run)
        unpack = self.constant("u", packer.unpack_from)
        targets = [self.name("u") if code == "16s" else target for code, target in run]
        self.emit(f"{', '.join(targets)}, = {unpack}(data, pos); pos += {packer.size}")
        for (code, target), raw in zip(run, targets, strict=True):
            if code == "16s":
                self.emit(f"{target} = uuid_of({raw})")

    def fail(self, field: Field, what: str) -> str:
        return f"raise bad({f'{field.name} {what}'!r})"

    def struct(self, cls: StructTable) -> str:
        """Emit the reading of a struct; the name of the variable that holds it."""
        target = self.name("o")
        self.emit(f"{target} = new({self.constant(cls.NAME, cls)})")
        tagged = []
        for field in cls.FIELDS:
            if not field.in_version(self.version):
                self.default(field, f"{target}.{field.name}")
            elif field.tagged_in(self.version):
                self.default(field, f"{target}.{field.name}")
                tagged.append(field)
            else:
                self.field(field, f"{target}.{field.name}")
        self.emit(f"{target}.unknown_tagged_fields = None")
        if self.flexible:
            self.tags(target, tagged)
        return target

    def default(self, field: Field, target: str) -> None:
        if _is_shared(field):
            value = self.constant("d", _struct(field).shared_default())
        elif field.default is FRESH:
            value = "[]" if field.array else f"{self.constant(_struct(field).NAME, field.kind)}()"
        elif field.default is None or isinstance(field.default, int | str | bytes | float):
            value = repr(field.default)
        else:
            value = self.constant("d", field.default)
        self.emit(f"{target} = {value}")

    def field(self, field: Field, target: str) -> None:
        if field.array:
            self.array(field, target)
        elif not isinstance(field.kind, str):
            self.nested(field, target)
        else:
            self.plain(field, field.kind, target, field.nullable_in(self.version))

    def nested(self, field: Field, target: str) -> None:
        if not field.nullable_in(self.version):
            self.emit(f"{target} = {self.struct(_struct(field))}")
            return
        # Kafka marks a null struct with -1 and a set one with 1; in a tagged field with the varints 0 and 1.
        null = 0 if field.tagged_in(self.version) else -1
        marker = self.name("m")
        self.fixed("b", marker)
        self.flush()
        self.emit(f"if {marker} == 1:")
        self.depth += 1
        value = self.struct(_struct(field))
        self.flush()
        self.emit(f"{target} = {value}")
        self.depth -= 1
        self.emit(f"elif {marker} == {null}: {target} = None")
        self.emit(f"else: {self.fail(field, 'has neither of the marks of a null and a set struct')}")

    def length(self, field: Field, code: str, flexible: bool) -> str:
        """Emit the reading of a length or count; the variable has it plus one where it is compact."""
        length = self.name("n")
        self.fixed("B" if flexible else code, length)
        self.flush()
        if flexible:
            self.emit(f"if {length} > 127: {length}, pos = varint(data, pos - 1)")
        return length

    def plain(self, field: Field, kind: str, target: str, nullable: bool) -> None:
        code = _FIXED.get(kind)
        if code is not None:
            self.fixed(code, target)
            return
        flexible = self.flexible and field.flexible
        length = self.length(field, "h" if kind == "string" else "i", flexible)
        end = f"pos + {length} - 1" if flexible else f"pos + {length}"
        null = f"{length} == 0" if flexible else f"{length} == -1"
        self.emit(f"e = {end}")
        if nullable:
            self.emit(f"if {null}: {target} = None")
        low = "" if nullable and flexible else f"{length} < 1 or " if flexible else f"{length} < 0 or "
        high = f" or {length} > {wire.MAX_STRING_BYTES + 1}" if kind == "string" and flexible else ""
        test = "elif" if nullable else "if"
        self.emit(f"{test} {low}e > size{high}: {self.fail(field, 'has a wrong length')}")
        value = {
            "string": "str(data[pos:e], 'utf-8')",
            "bytes": "bytes(data[pos:e])",
            "records": "memoryview(data)[pos:e]",
        }[kind]
        if nullable:
            self.emit(f"else: {target} = {value}; pos = e")
        else:
            self.emit(f"{target} = {value}; pos = e")

    def array(self, field: Field, target: str) -> None:
        flexible = self.flexible
        count = self.length(field, "i", flexible)
        if flexible:
            self.emit(f"{count} -= 1")
        nullable = field.nullable_in(self.version)
        kind = field.kind
        if not isinstance(kind, str):
            least = minimum_size(_struct(field), self.version, flexible)
        else:
            least = _plain_minimum(kind, flexible)
        if least < 1:
            raise TypeError(f"{self.cls.NAME} v{self.version}: elements of {field.name} may be empty")
        if nullable:
            self.emit(f"if {count} == -1: {target} = None")
            self.emit("else:")
            self.depth += 1
        room = f"{count} * {least}" if least > 1 else count
        failure = self.fail(field, "has a wrong count")
        self.emit(f"if not 0 <= {count} <= {MAX_ELEMENTS} or {room} > size - pos: {failure}")
        if isinstance(kind, str) and kind in _FIXED:
            self.spend(field, f"{count} // {NUMBERS_AN_ELEMENT}")
            self.fixed_elements(kind, count, least, target)
        else:
            self.spend(field, count)
            self.elements(field, count, target)
        if nullable:
            self.depth -= 1

    def spend(self, field: Field, elements: str) -> None:
        """Take elements from the message's budget."""
        self.emit(f"budget -= {elements}")
        text = f"{field.name} has more elements than are read in one go"
        self.emit(f"if budget < 0: raise too_many({text!r})")

    def fixed_elements(self, kind: str, count: str, size: int, target: str) -> None:
        if kind == "uuid":
            values = f"[uuid_of(bytes(data[i:i + 16])) for i in range(pos, pos + 16 * {count}, 16)]"
        elif kind == "int8":
            values = f"list(unpack(f'{{{count}}}b', data, pos))"
        else:
            values = f"list(unpack(f'>{{{count}}}{_FIXED[kind]}', data, pos))"
        self.emit(f"{target} = {values}; pos += {size} * {count}")

    def elements(self, field: Field, count: str, target: str) -> None:
        items = self.name("l")
        add = self.name("a")
        self.emit(f"{items} = []; {add} = {items}.append")
        self.emit(f"for _ in range({count}):")
        self.depth += 1
        if not isinstance(field.kind, str):
            value = self.struct(_struct(field))
        else:
            value = self.name("v")
            self.plain(field, field.kind, value, False)
        self.flush()
        self.emit(f"{add}({value})")
        self.depth -= 1
        self.emit(f"{target} = {items}")

    def tags(self, target: str, tagged: list[Field]) -> None:
        count = self.name("t")
        self.fixed("B", count)
        self.flush()
        self.emit(f"if {count}:")
        self.depth += 1
        self.emit(f"if {count} > 127: {count}, pos = varint(data, pos - 1)")
        wrong = f"{count} > {MAX_TAGGED_FIELDS} or {count} * 2 > size - pos"
        self.emit(f"if {wrong}: raise bad('a wrong count of tagged fields')")
        self.emit(f"budget -= {count}")
        self.emit("if budget < 0: raise too_many('more tagged fields than are read in one go')")
        fields, after, end, tag = (self.name(prefix) for prefix in ("g", "p", "e", "k"))
        self.emit(f"{fields}, {after} = read_tags(data, pos, {count})")
        self.emit(f"for {tag}, pos, {end} in {fields}:")
        self.depth += 1
        for field in tagged:
            self.emit(f"if {tag} == {field.tag}:")
            self.depth += 1
            self.field(field, f"{target}.{field.name}")
            self.flush()
            self.emit(f"if pos != {end}: {self.fail(field, 'does not end where its size says')}")
            self.emit("continue")
            self.depth -= 1
        self.emit(f"if {target}.unknown_tagged_fields is None: {target}.unknown_tagged_fields = {{}}")
        self.emit(f"{target}.unknown_tagged_fields[{tag}] = bytes(data[pos:{end}])")
        self.depth -= 1
        self.emit(f"pos = {after}")
        self.depth -= 1


class _Encoding(_Source):
    """Writes an encoder. In the generated code `write` takes the next piece of the message."""

    def __init__(self, cls: MessageTable, version: int) -> None:
        super().__init__(cls, version)
        self.sink = "write"

    def compile(self) -> Encoder:
        cls = self.cls
        self.namespace.update(
            varint=wire.write_unsigned_varint,
            one=wire.ONE_BYTE,
            write_tags=wire.write_tags,
            pack=struct.pack,
            cut=wire.cut_text,
        )
        self.struct(cls, "o")
        self.flush()
        source = "def encode(o, write):\n" + "\n".join([*self.lines, "    return None"])
        encoder: Encoder = _define(source, "encode", self.namespace, f"{cls.NAME} v{self.version}")
        return encoder

    def fixed(self, code: str, value: str) -> None:
        self.run.append((code, value))

    def flush(self) -> None:
        """Write what is pending: one pack for the whole run."""
        run, self.run = self.run, []
        if run:
            self.pack(run)

    def pack(self, run: list[tuple[str, str]]) -> None:
        pack = self.constant("p", _packer(run).pack)
        self.emit(f"{self.sink}({pack}({', '.join(value for _, value in run)}))")

    def one_byte_if(self, test: str, byte: str) -> None:
        """Write what is pending and, where `test` holds, one byte with it; leaves an open `else` behind."""
        run, self.run = self.run, []
        self.emit(f"if {test}:")
        self.depth += 1
        self.pack([*run, ("B", byte)])
        self.depth -= 1
        self.emit("else:")
        self.depth += 1
        if run:
            self.pack(run)

    def write(self, value: str) -> None:
        self.flush()
        self.emit(f"{self.sink}({value})")

    def fail(self, field: Field, what: str) -> str:
        return f"raise ValueError({f'{self.cls.NAME} v{self.version}: {field.name} {what}'!r})"

    def struct(self, cls: StructTable, source: str) -> None:
        tagged = []
        for field in cls.FIELDS:
            if not field.in_version(self.version):
                self.absent(field, f"{source}.{field.name}")
            elif field.tagged_in(self.version):
                tagged.append(field)
            else:
                self.field(field, f"{source}.{field.name}")
        if self.flexible:
            self.tags(source, tagged)
        else:
            message = f"{self.cls.NAME} v{self.version}: tagged fields are set, but this version has none"
            self.emit(f"if {source}.unknown_tagged_fields: raise ValueError({message!r})")

    def absent(self, field: Field, source: str) -> None:
        """A field that this version lacks may be dropped when nobody set it, or when the table says so."""
        if not field.ignorable:
            failure = self.fail(field, "is set, but this version has no such field")
            self.emit(f"if {self.differs(field, source)}: {failure}")

    def differs(self, field: Field, source: str) -> str:
        """The test whether a field has another value than its default."""
        default = field.default
        if field.array and default is FRESH:
            # A list set to None where this version cannot say null is not its default either.
            return f"{source} or {source} is None"
        if default is None:
            return f"{source} is not None"
        if default is FRESH:
            name = self.constant("d", _struct(field).shared_default())
            return f"{source} is not {name} and {source} != {name}"
        if default is False or default == "" or default == b"" or default == 0:
            nullable = field.nullable != "none"
            return f"{source} or {source} is None" if nullable else source
        if isinstance(default, int | float):
            return f"{source} != {default!r}"
        return f"{source} != {self.constant('d', default)}"

    def field(self, field: Field, source: str) -> None:
        if field.array:
            self.array(field, source)
        elif not isinstance(field.kind, str):
            self.nested(field, source)
        else:
            self.plain(field, field.kind, source, field.nullable_in(self.version), field.nullable != "none")

    def nested(self, field: Field, source: str) -> None:
        value = self.name("o")
        self.emit(f"{value} = {source}")
        if not field.nullable_in(self.version):
            if field.nullable != "none":
                self.emit(f"if {value} is None: {self.fail(field, 'may not be null in this version')}")
            self.struct(_struct(field), value)
            return
        self.flush()
        null = b"\0" if field.tagged_in(self.version) else b"\xff"
        self.emit(f"if {value} is None: {self.sink}({null!r})")
        self.emit("else:")
        self.depth += 1
        self.fixed("b", "1")
        self.struct(_struct(field), value)
        self.flush()
        self.depth -= 1

    def length(self, value: str, code: str, flexible: bool) -> None:
        """The prefix of a variable field: `value` is its length, or -1 for null."""
        if not flexible:
            self.fixed(code, value)
        elif not self.run:
            self.emit(f"{self.sink}(one[{value} + 1] if {value} < 127 else varint({value} + 1))")
        else:
            self.one_byte_if(f"{value} < 127", f"{value} + 1")
            self.emit(f"{self.sink}(varint({value} + 1))")
            self.depth -= 1

    def plain(self, field: Field, kind: str, source: str, nullable: bool, ever_nullable: bool) -> None:
        code = _FIXED.get(kind)
        if code is not None:
            self.fixed(code, f"{source}.bytes" if kind == "uuid" else source)
            return
        flexible = self.flexible and field.flexible
        value = self.name("s")
        length = self.name("n")
        self.emit(f"{value} = {source}")
        if nullable:
            filled = f"{value}.encode()" if kind == "string" else value
            self.emit(f"if {value} is None: {value} = b''; {length} = -1")
            self.emit(f"else: {value} = {filled}; {length} = len({value})")
        else:
            if ever_nullable:
                self.emit(f"if {value} is None: {self.fail(field, 'may not be null in this version')}")
            if kind == "string":
                self.emit(f"{value} = {value}.encode()")
            self.emit(f"{length} = len({value})")
        if kind == "string":
            too_long = self.fail(field, "is longer than 32767 bytes")
            if field.name == "error_message":
                too_long = f"{value} = cut({value}); {length} = len({value})"
            self.emit(f"if {length} > {wire.MAX_STRING_BYTES}: {too_long}")
        self.length(length, "h" if kind == "string" else "i", flexible)
        self.write(value)

    def array(self, field: Field, source: str) -> None:
        value = self.name("l")
        count = self.name("n")
        self.emit(f"{value} = {source}")
        if field.nullable_in(self.version):
            self.emit(f"if {value} is None: {value} = (); {count} = -1")
            self.emit(f"else: {count} = len({value})")
        else:
            if field.nullable != "none":
                self.emit(f"if {value} is None: {self.fail(field, 'may not be null in this version')}")
            self.emit(f"{count} = len({value})")
        self.length(count, "i", self.flexible)
        self.flush()
        kind = field.kind
        if isinstance(kind, str) and kind in _FIXED and kind != "uuid":
            self.emit(f"if {value}: {self.sink}(pack(f'>{{{count}}}{_FIXED[kind]}', *{value}))")
            return
        item = self.name("o")
        self.emit(f"for {item} in {value}:")
        self.depth += 1
        if not isinstance(kind, str):
            self.struct(_struct(field), item)
        else:
            self.plain(field, kind, item, False, False)
        self.flush()
        self.emit("pass")
        self.depth -= 1

    def tags(self, source: str, tagged: list[Field]) -> None:
        """The tag section: most often nothing is set, and it is one zero byte."""
        unknown = f"{source}.unknown_tagged_fields"
        unset = [f"not ({self.is_set(field, f'{source}.{field.name}')})" for field in tagged]
        nothing = " and ".join([*unset, f"not {unknown}"])
        if self.run:
            self.one_byte_if(nothing, "0")
        else:
            self.emit(f"if {nothing}: {self.sink}(b'\\0')")
            self.emit("else:")
            self.depth += 1
        known = "[]"
        if tagged:
            known = self.name("t")
            self.emit(f"{known} = []")
        for field in sorted(tagged, key=lambda row: row.tag):
            self.tagged_field(field, f"{source}.{field.name}", known)
        self.emit(f"write_tags({self.sink}, {known}, {unknown})")
        self.depth -= 1

    def is_set(self, field: Field, source: str) -> str:
        """A cheap test that is true where a tagged field may differ from its default."""
        if _is_shared(field):
            return f"{source} is not {self.constant('d', _struct(field).shared_default())}"
        return self.differs(field, source)

    def tagged_field(self, field: Field, source: str, known: str) -> None:
        """Append a tagged field's tag and bytes to `known` where it is not its default."""
        self.emit(f"if {self.differs(field, source)}:")
        self.depth += 1
        outer = self.sink
        parts = self.name("b")
        self.sink = self.name("w")
        self.emit(f"{parts} = []; {self.sink} = {parts}.append")
        self.field(field, source)
        self.flush()
        self.emit(f"{known}.append(({field.tag}, b''.join({parts})))")
        self.sink = outer
        self.depth -= 1
