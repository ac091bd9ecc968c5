"""Declares Kafka's messages: the body of a message class is its field table.

    class PartitionProduceData(Struct):
        index: int = int32("0+")
        records: Buffer | None = record_bytes("0+", nullable="0+")

    class ProduceRequest(Message, api_key=0, kind="request", versions="3-13", flexible="9+"):
        ...

A field names the versions that carry it ("0+", "3-8", "4"), those in which it may be null, its tag and the
versions in which it is tagged, its default, and whether it may be dropped silently (`ignorable`) when a
message is encoded at a version without it. The words are those of Kafka's own JSON tables.

Theory of operation. The metaclass takes the table out of the class body, gives the class slots, and does
nothing else: a message module costs little to import. The initialiser and the codec of each (message,
version) are compiled by `ottla.protocol.codec` when they are first used, and kept on the class.

A struct is mutable and has keyword-only arguments with Kafka's defaults. One exception: the default of a
tagged struct field of plain values (as FetchResponse's `current_leader`) is one shared value that refuses
changes, because messages hold thousands that nobody sets. Assign a new struct, do not change it in place.
"""

from __future__ import annotations

import struct
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, Self, dataclass_transform

from ottla.protocol.errors import MalformedMessage, TooManyElements, UnsupportedApiVersion
from ottla.protocol.fields import FRESH, Field, Required, parse_versions
from ottla.protocol.fields import Buffer as Buffer  # part of what a message's table is made of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.fields import Decoder, Encoder

ZERO_UUID: Final = uuid.UUID(int=0)
_SECRET_FIELDS: Final = frozenset({"auth_bytes", "hmac", "salted_password", "server_key", "stored_key"})
"""The fields of credentials, by their names in any message: hidden where one is printed."""
_SECRET_FIELDS_OF: Final = {
    "AlterableConfig": frozenset({"value"}),  # a broker's setting may be a password
    "ConfigRecord": frozenset({"value"}),
    "EnvelopeRequest": frozenset({"request_data"}),
}


def int8(
    versions: str, *, default: int = 0, tag: int = -1, tagged: str = "none", ignorable: bool = False
) -> Any:
    """A signed byte."""
    return Field("int8", False, versions, "none", tag, tagged, default, ignorable, True)


def int16(
    versions: str, *, default: int = 0, tag: int = -1, tagged: str = "none", ignorable: bool = False
) -> Any:
    """A signed 16-bit integer."""
    return Field("int16", False, versions, "none", tag, tagged, default, ignorable, True)


def uint16(
    versions: str, *, default: int = 0, tag: int = -1, tagged: str = "none", ignorable: bool = False
) -> Any:
    """An unsigned 16-bit integer: a port."""
    return Field("uint16", False, versions, "none", tag, tagged, default, ignorable, True)


def int32(
    versions: str, *, default: int = 0, tag: int = -1, tagged: str = "none", ignorable: bool = False
) -> Any:
    """A signed 32-bit integer."""
    return Field("int32", False, versions, "none", tag, tagged, default, ignorable, True)


def uint32(
    versions: str, *, default: int = 0, tag: int = -1, tagged: str = "none", ignorable: bool = False
) -> Any:
    """An unsigned 32-bit integer."""
    return Field("uint32", False, versions, "none", tag, tagged, default, ignorable, True)


def int64(
    versions: str, *, default: int = 0, tag: int = -1, tagged: str = "none", ignorable: bool = False
) -> Any:
    """A signed 64-bit integer."""
    return Field("int64", False, versions, "none", tag, tagged, default, ignorable, True)


def float64(
    versions: str, *, default: float = 0.0, tag: int = -1, tagged: str = "none", ignorable: bool = False
) -> Any:
    """A double."""
    return Field("float64", False, versions, "none", tag, tagged, default, ignorable, True)


def boolean(
    versions: str, *, default: bool = False, tag: int = -1, tagged: str = "none", ignorable: bool = False
) -> Any:
    """One byte, false where it is 0."""
    return Field("bool", False, versions, "none", tag, tagged, default, ignorable, True)


def uuid128(
    versions: str,
    *,
    default: uuid.UUID = ZERO_UUID,
    tag: int = -1,
    tagged: str = "none",
    ignorable: bool = False,
) -> Any:
    """A UUID; all zeros where nothing is meant."""
    return Field("uuid", False, versions, "none", tag, tagged, default, ignorable, True)


def string(
    versions: str,
    *,
    nullable: str = "none",
    default: str | None = "",
    tag: int = -1,
    tagged: str = "none",
    ignorable: bool = False,
    flexible: bool = True,
) -> Any:
    """A UTF-8 string of at most 32767 bytes. `flexible=False`: never with a compact length (headers only)."""
    return Field("string", False, versions, nullable, tag, tagged, default, ignorable, flexible)


def binary(
    versions: str,
    *,
    nullable: str = "none",
    default: bytes | None = b"",
    tag: int = -1,
    tagged: str = "none",
    ignorable: bool = False,
) -> Any:
    """Bytes, copied out of the message that held them."""
    return Field("bytes", False, versions, nullable, tag, tagged, default, ignorable, True)


def record_bytes(
    versions: str,
    *,
    nullable: str = "none",
    default: bytes | None = b"",
    tag: int = -1,
    tagged: str = "none",
    ignorable: bool = False,
) -> Any:
    """Record batches, decoded as a memoryview into the message that holds them."""
    return Field("records", False, versions, nullable, tag, tagged, default, ignorable, True)


def struct_of(
    kind: type[Struct],
    versions: str,
    *,
    nullable: str = "none",
    default: Required | None = FRESH,
    tag: int = -1,
    tagged: str = "none",
    ignorable: bool = False,
) -> Any:
    """A nested struct."""
    return Field(kind, False, versions, nullable, tag, tagged, default, ignorable, True)


def array_of(
    kind: type[Struct] | Callable[..., Any],
    versions: str,
    *,
    nullable: str = "none",
    default: Required | None = FRESH,
    tag: int = -1,
    tagged: str = "none",
    ignorable: bool = False,
) -> Any:
    """A list of structs, or of a plain type named by its function: `array_of(int32, "0+")`."""
    element: Any = kind if isinstance(kind, StructMeta) else _ELEMENTS[kind]
    return Field(element, True, versions, nullable, tag, tagged, default, ignorable, True)


_ELEMENTS: Final[dict[Any, str]] = {
    int8: "int8",
    int16: "int16",
    uint16: "uint16",
    int32: "int32",
    uint32: "uint32",
    int64: "int64",
    float64: "float64",
    boolean: "bool",
    string: "string",
    binary: "bytes",
    uuid128: "uuid",
}


@dataclass_transform(kw_only_default=True)
class StructMeta(type):
    """Takes the fields out of a class body, in order, and gives the class slots of their names."""

    FIELDS: tuple[Field, ...]
    NAME: str

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **table: Any
    ) -> StructMeta:
        fields = []
        for key, value in namespace.items():
            if type(value) is Field:
                value.name = key
                fields.append(value)
        for field in fields:
            del namespace[field.name]
        namespace["__slots__"] = tuple(field.name for field in fields)
        namespace["FIELDS"] = tuple(fields)
        namespace["NAME"] = name
        return super().__new__(mcls, name, bases, namespace, **table)


class Struct(metaclass=StructMeta):
    """A part of a message. Equal to another of its class with equal fields; not hashable."""

    if TYPE_CHECKING:
        unknown_tagged_fields: dict[int, bytes] | None = None
        FIELDS: ClassVar[tuple[Field, ...]]
        NAME: ClassVar[str]
    else:
        unknown_tagged_fields = Field("unknown", False, "0+", "0+", -1, "none", None, True, True)

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            from ottla.protocol.codec import compile_initialiser

            cls = type(self)
            cls.__init__ = compile_initialiser(cls)
            cls.__init__(self, **values)

    @classmethod
    def shared_default(cls) -> Self:
        """The one value that stands for "not set" in tagged fields of this struct."""
        known: Self | None = cls.__dict__.get("_shared")
        if known is None:
            template = cls()
            refusing: Any = StructMeta(cls.__name__, (SharedDefault, cls), {})
            known = object.__new__(refusing)
            for name in ("unknown_tagged_fields", *(field.name for field in cls.FIELDS)):
                object.__setattr__(known, name, getattr(template, name))
            type.__setattr__(cls, "_shared", known)
        return known

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Struct):
            return NotImplemented
        mine, theirs = struct_class(self), struct_class(other)
        if mine is not theirs:
            return False
        return self.unknown_tagged_fields == other.unknown_tagged_fields and all(
            getattr(self, field.name) == getattr(other, field.name) for field in mine.FIELDS
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        cls = struct_class(self)
        hidden = _SECRET_FIELDS | _SECRET_FIELDS_OF.get(cls.__name__, frozenset())
        shown = [
            f"{field.name}={'[hidden]' if field.name in hidden else repr(getattr(self, field.name))}"
            for field in cls.FIELDS
        ]
        if self.unknown_tagged_fields:
            shown.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{cls.__name__}({', '.join(shown)})"


class SharedDefault:
    """Mixed into the class of a shared default value: it takes no changes, and copies of it are itself."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        owner = type(self).__mro__[2].__name__
        raise TypeError(f"this {owner} is the default that all messages share: assign a new {owner}")

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self


def struct_class(value: Struct) -> type[Struct]:
    """The declared class of a struct, of a shared default too."""
    cls = type(value)
    return cls.__mro__[2] if issubclass(cls, SharedDefault) else cls


class Message(Struct):
    """A whole message: what a request, a response, or a record's key or value is made of.

    `API_KEY` is an API's key in requests and responses, and the record's type in metadata records and in the
    keys and values of coordinators. `LATEST_STABLE_VERSION` is below `MAX_VERSION` where Kafka marks the
    newest version as unstable.
    """

    KIND: ClassVar[str]
    API_KEY: ClassVar[int | None]
    MIN_VERSION: ClassVar[int]
    MAX_VERSION: ClassVar[int]
    LATEST_STABLE_VERSION: ClassVar[int]
    FLEXIBLE_SINCE: ClassVar[int | None]
    _encoders: ClassVar[dict[int, Encoder]]
    _decoders: ClassVar[dict[int, Decoder]]

    def __init_subclass__(
        cls,
        *,
        versions: str,
        flexible: str = "none",
        kind: str = "data",
        api_key: int | None = None,
        unstable: int = 0,
    ) -> None:
        cls.KIND = kind
        cls.API_KEY = api_key
        cls.MIN_VERSION, cls.MAX_VERSION = parse_versions(versions)
        cls.LATEST_STABLE_VERSION = cls.MAX_VERSION - unstable
        cls.FLEXIBLE_SINCE = None if flexible == "none" else parse_versions(flexible)[0]
        cls._encoders = {}
        cls._decoders = {}

    def encode(self, version: int) -> bytes:
        """The message's body at a version.

        Raises UnsupportedApiVersion for a version that the message does not have, and ValueError for a value
        that cannot be written at this version: out of range, null where it may not be, too long, or set
        (different from its default) in a field that the version lacks and that may not be dropped.
        """
        return b"".join(self.encode_parts(version))

    def encode_parts(self, version: int) -> list[Buffer]:
        """As `encode`, but the pieces; `records` fields are among them as they were given, not copied."""
        encoder = self._encoders.get(version) or self._compile_encoder(version)
        parts: list[Buffer] = []
        try:
            encoder(self, parts.append)
        except struct.error as error:
            raise ValueError(f"{self.NAME} v{version}: {error}") from error
        return parts

    @classmethod
    def decode(cls, data: Buffer, version: int, position: int = 0) -> Self:
        """The message that fills `data` from `position` to its end.

        Raises UnsupportedApiVersion for a version that the message does not have, and MalformedMessage for
        bytes that are not such a message. The memory it takes is bounded by the size of `data` and by
        `codec.MAX_ELEMENTS`, for requests `codec.MAX_REQUEST_ELEMENTS` (then TooManyElements).
        """
        decoder = cls._decoders.get(version) or cls._compile_decoder(version)
        try:
            message, end = decoder(data, position)
        except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError) as error:
            raise MalformedMessage(f"{cls.NAME} v{version}: {error}") from error
        if end != len(data):
            raise MalformedMessage(f"{cls.NAME} v{version}: {len(data) - end} bytes follow its end")
        result: Self = message
        return result

    @classmethod
    def decode_prefix(
        cls, data: Buffer, version: int, position: int = 0, max_elements: int | None = None
    ) -> tuple[Self, int]:
        """As `decode`, but more bytes may follow: the message and the position after it.

        `max_elements` takes the place of the kind's own bound. Raises TooManyElements for a message that has
        more.
        """
        decoder = cls._decoders.get(version) or cls._compile_decoder(version)
        try:
            return decoder(data, position) if max_elements is None else decoder(data, position, max_elements)
        except TooManyElements as error:
            raise TooManyElements(f"{cls.NAME} v{version}: {error}") from error
        except (MalformedMessage, struct.error, IndexError, UnicodeDecodeError) as error:
            raise MalformedMessage(f"{cls.NAME} v{version}: {error}") from error

    @classmethod
    def _compile_encoder(cls, version: int) -> Encoder:
        from ottla.protocol.codec import compile_encoder

        cls._check_version(version)
        encoder = cls._encoders[version] = compile_encoder(cls, version)
        return encoder

    @classmethod
    def _compile_decoder(cls, version: int) -> Decoder:
        from ottla.protocol.codec import compile_decoder

        cls._check_version(version)
        decoder = cls._decoders[version] = compile_decoder(cls, version)
        return decoder

    @classmethod
    def _check_version(cls, version: int) -> None:
        if not cls.MIN_VERSION <= version <= cls.MAX_VERSION:
            raise UnsupportedApiVersion(cls.NAME, version)
