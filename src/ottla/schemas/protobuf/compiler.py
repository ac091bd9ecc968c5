"""Runs protoc in this process: texts in, serialized descriptors out.

grpcio-tools' `get_protos` gives errors as objects with line and column, while its entry for the command line
would print them. Its results are the Python modules that protoc generates, and each has its file's
serialized descriptor as a literal. It holds the interpreter's lock while it runs (half a millisecond for a
usual schema), so neither a lock nor a thread would help. The files are in a directory of their own, which is
removed at the end; protoc refuses import paths that lead out of its search path.
"""

from __future__ import annotations

import ast
import os
import re
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from grpc_tools import _protoc_compiler

from ottla.schemas.format import InvalidSchema
from ottla.schemas.protobuf.known_types import protoc_include, shared_files

MAX_ERRORS_TOLD: Final = 5
_IN_MEMORY: Final = "/dev/shm"
_PROTO2: Final = 'syntax = "proto2"; '
_DESCRIPTOR: Final = re.compile(rb"AddSerializedFile\((b'(?:[^'\\]|\\.)*')\)")
_PATH_PART: Final = r"[^\x00-\x1f\x7f\ud800-\udfff\"'\\/]+"
_IMPORT_PATH: Final = re.compile(f"{_PATH_PART}(?:/{_PATH_PART})*")
_SHARED_IMPORT: Final = re.compile(r"(?:google/type|confluent)/[\w/]+\.proto")
_MAX_IMPORT_PATH: Final = 1024
_MAX_PATH_PART: Final = 255

# protoc's warnings are for the author of a schema, and would be a line in our log for each schema.
warnings.filterwarnings("ignore", category=_protoc_compiler.ProtocWarning)


def can_be_imported(path: str) -> bool:
    """Whether protoc accepts the path in an import, and it can be written to disk."""
    return (
        len(path) <= _MAX_IMPORT_PATH
        and _IMPORT_PATH.fullmatch(path) is not None
        and all(part not in (".", "..") and len(part.encode()) <= _MAX_PATH_PART for part in path.split("/"))
    )


def compile_files(main: str, files: Mapping[str, str], without_syntax: frozenset[str]) -> list[bytes]:
    """The serialized descriptors of `main` and of all its imports, each file after those that it imports.

    `files` are texts by import paths, `main` is one of them; `without_syntax` names those that do not begin
    with a syntax or an edition: they are proto2, which protoc would log on stderr. Raises InvalidSchema, and
    OSError if the machine has no room for the files.
    """
    with tempfile.TemporaryDirectory(prefix="ottla-protoc-", dir=_memory_directory()) as directory:
        root = Path(directory)
        for path, text in _with_shared(files).items():
            _write(root / path, _PROTO2 + text if path in without_syntax else text)
        modules = _generated_modules(main, directory, without_syntax)
    return [_descriptor_in(code) for code in modules]


def _memory_directory() -> str | None:
    """A directory in memory, if there is one: a schema takes 0.8 ms there, 3 ms on a busy disk."""
    return _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK | os.X_OK) else None


def _with_shared(files: Mapping[str, str]) -> dict[str, str]:
    """The files, with the known files that they mention, directly or not."""
    found = dict(files)
    waiting = list(files.values())
    while waiting:
        for path in _SHARED_IMPORT.findall(waiting.pop()):
            text = shared_files().get(path)
            if text is not None and path not in found:
                found[path] = text
                waiting.append(text)
    return found


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    except UnicodeEncodeError:
        raise InvalidSchema("the text has half of a surrogate pair in it") from None
    except (FileExistsError, NotADirectoryError, IsADirectoryError):
        raise InvalidSchema("a reference has a name that is a directory of another's name") from None


def _generated_modules(main: str, directory: str, without_syntax: frozenset[str]) -> list[bytes]:
    include = [directory.encode(), protoc_include().encode()]
    try:
        generated: list[tuple[bytes, bytes]] = _protoc_compiler.get_protos(main.encode(), include)
    except _protoc_compiler.ProtocErrors as failed:
        raise InvalidSchema(_told(failed.errors(), main, without_syntax)) from None
    except Exception as failed:  # raised by the binding if protoc fails without giving a reason
        raise InvalidSchema(f"protoc refuses the schema: {failed}") from None
    return [code for _name, code in generated]


def _told(errors: Sequence[Any], main: str, without_syntax: frozenset[str]) -> str:
    """Errors as a text for people; lines and columns count from one."""
    told: list[str] = []
    for error in errors[:MAX_ERRORS_TOLD]:
        path = error.filename.decode("utf-8", "replace")
        message = error.message.decode("utf-8", "replace")
        place = "" if path == main else f"in {path}: "
        if error.line >= 0:
            shift = len(_PROTO2) if error.line == 0 and path in without_syntax else 0
            place += f"line {error.line + 1}, column {max(0, error.column - shift) + 1}: "
        told.append(place + message)
    if len(errors) > MAX_ERRORS_TOLD:
        told.append(f"and {len(errors) - MAX_ERRORS_TOLD} more errors")
    return "; ".join(told)


def _descriptor_in(code: bytes) -> bytes:
    found = _DESCRIPTOR.search(code)
    if found is None:
        raise InvalidSchema("protoc generated no descriptor")
    descriptor: bytes = ast.literal_eval(found[1].decode())
    return descriptor
