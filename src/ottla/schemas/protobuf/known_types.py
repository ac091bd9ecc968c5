"""Files that every Protobuf schema may import without a reference: Google's and Confluent's common types.

`google/protobuf/*` comes with protoc, `google/type/*` with googleapis-common-protos; Confluent's three are
written here, with the numbers that its clients have compiled in.
"""

from __future__ import annotations

import importlib.util
from functools import lru_cache
from pathlib import Path
from typing import Final

_META: Final = """\
syntax = "proto3";
package confluent;

import "google/protobuf/descriptor.proto";

message Meta {
  string doc = 1;
  map<string, string> params = 2;
  repeated string tags = 3;
  repeated Rule rules = 4;
}

message Rule {
  string name = 1;
  string doc = 2;
  string expr = 3;
  string sql = 4;
}

extend google.protobuf.FileOptions {
  Meta file_meta = 1088;
}
extend google.protobuf.MessageOptions {
  Meta message_meta = 1088;
}
extend google.protobuf.FieldOptions {
  Meta field_meta = 1088;
}
extend google.protobuf.EnumOptions {
  Meta enum_meta = 1088;
}
extend google.protobuf.EnumValueOptions {
  Meta enum_value_meta = 1088;
}
"""

_DECIMAL: Final = """\
syntax = "proto3";
package confluent.type;

message Decimal {
  bytes value = 1;
  uint32 precision = 2;
  int32 scale = 3;
}
"""

_VARIANT: Final = """\
syntax = "proto3";
package confluent.type;

message Variant {
  bytes metadata = 1;
  bytes value = 2;
}
"""

# The former path of Decimal, which today's clients send too, without a reference.
_OLD_DECIMAL: Final = """\
syntax = "proto3";

import public "confluent/type/decimal.proto";
"""

_CONFLUENT: Final = {
    "confluent/meta.proto": _META,
    "confluent/type/decimal.proto": _DECIMAL,
    "confluent/type/variant.proto": _VARIANT,
    "confluent/types/decimal.proto": _OLD_DECIMAL,
}
_PROTOC_PREFIX: Final = "google/protobuf/"


@lru_cache(maxsize=1)
def protoc_include() -> str:
    """The directory with protoc's own files, for its search path."""
    return str(_directory_of("grpc_tools") / "_proto")


@lru_cache(maxsize=1)
def shared_files() -> dict[str, str]:
    """The texts of the known files that protoc does not bring, by their import paths."""
    directory = _directory_of("google.type")
    google = {f"google/type/{path.name}": path.read_text("utf-8") for path in directory.glob("*.proto")}
    return _CONFLUENT | google


@lru_cache(maxsize=1)
def _protoc_files() -> frozenset[str]:
    include = Path(protoc_include())
    return frozenset(path.relative_to(include).as_posix() for path in include.rglob("*.proto"))


def comes_with_protoc(path: str) -> bool:
    """Whether protoc has the file itself. No reference may replace such a file: protoc relies on it."""
    return path.startswith(_PROTOC_PREFIX) and path in _protoc_files()


def _directory_of(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(f"the package {package} is needed for Protobuf schemas")
    return Path(next(iter(found.submodule_search_locations)))
