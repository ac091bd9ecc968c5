"""Classes of Protobuf messages from their .proto texts, as protoc's Python code would give them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc

WELL_KNOWN = Path(protoc.__file__).parent / "_proto"


def message_class(directory: Path, sources: Mapping[str, str], name: str) -> Any:
    """The class of the message with this full name; `sources` by the paths that imports know them by."""
    for path, text in sources.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text(text, encoding="utf-8")
    compiled = directory / "compiled.bin"
    options = [f"-I{directory}", f"-I{WELL_KNOWN}", "--include_imports", f"--descriptor_set_out={compiled}"]
    code = protoc.main(["protoc", *options, *sources])
    assert code == 0, f"protoc ends with {code}"
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(compiled.read_bytes()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
