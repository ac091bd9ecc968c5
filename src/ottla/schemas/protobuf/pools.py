"""Makes pools of descriptors out of serialized files."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.descriptor_pool import DescriptorPool

from ottla.schemas.format import InvalidSchema


def pool_of(files: Iterable[bytes]) -> tuple[DescriptorPool, list[str]]:
    """A pool of the files, each after those that it imports, and their packages. Raises InvalidSchema."""
    pool = DescriptorPool()
    packages: list[str] = []
    for serialized in files:
        try:
            packages.append(pool.AddSerializedFile(serialized).package)
        except TypeError as refused:  # protobuf's runtime is stricter than protoc in places
            raise InvalidSchema(str(refused)) from None
    return pool, packages
