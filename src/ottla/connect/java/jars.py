"""The jars of Kafka Connect's own runtime, pinned: what a Java worker needs to run plugins.

Beside connect-runtime with its dependencies (as Maven resolves them) there are MirrorMaker's connectors, the
extension that asks for a password on the worker's REST port, and log4j.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.connect.java.errors import JavaConnectError

if TYPE_CHECKING:
    from ottla.pipeline.spark.maven import Jar

_LOCK: Final = Path(__file__).with_name("connect.jars.lock")


def connect_jars() -> list[Jar]:
    """The jars, each with the sha256 of its bytes."""
    from ottla.pipeline.spark.maven import Jar

    pinned = []
    for line in _LOCK.read_text(encoding="ascii").splitlines():
        if not line.startswith("#"):
            coordinate, sha256 = line.split()
            group, artifact, version = coordinate.split(":")
            pinned.append(Jar(group, artifact, version, sha256))
    return pinned


def fetch_connect() -> list[Path]:
    """The paths of all jars; those that are missing are fetched into the cache (37 MB, once).

    Raises JavaConnectError without the packages for it, MavenError.
    """
    try:
        from ottla.pipeline.spark.maven import fetch_jars
    except ModuleNotFoundError as missing:
        raise JavaConnectError(
            f"Java plugins need the package {missing.name}: pip install 'ottla[pipeline]'"
        ) from None
    return fetch_jars(connect_jars())
