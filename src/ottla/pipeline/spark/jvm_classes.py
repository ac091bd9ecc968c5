"""Makes the jar of ottla's own classes for Spark's JVM, from their sources in this package.

They are the exactly-once sink (sink/*.java), the sources whose batches a planner ends
(query/PlannedKafka.java), rows of JSON (formats/JsonRows.java), and local files that lakes are committed to
(LakeCommits.java). A wheel holds the
sources alone, as the classes of Spark and Kafka that they stand on are those of this machine. The compiler
is Janino, which Spark has, in a small JVM of its own: a second or two, once for these sources and these jars.
The jar lies in the cache, written aside and renamed; it may be deleted at any time. Where it can't be made,
Python does the same work, slower.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from ottla.pipeline.spark.cache import cache_directory
from ottla.pipeline.spark.java_runtime import JavaRuntime

_DIRECTORY: Final = "jvm-classes"
_BUILDER: Final = "BuildJar"
_LAKE_COMMITS: Final = "LakeCommits"
LAKE_COMMITS_CLASS: Final = "ottla.pipeline.LakeCommits"
_SOURCES: Final = {
    "ottla.pipeline.sink": (
        "ExactlyOnceKafka",
        "ExactlyOnceUnit",
        "Ledger",
        "LedgerEntry",
        "Place",
        "SinkError",
        "SinkOptions",
    ),
    "ottla.pipeline.query": ("PlannedKafka",),
    "ottla.pipeline.formats": ("JsonRows",),
}
_TIMEOUT_SECONDS: Final = 60.0
_JVM_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m")

log = logging.getLogger("ottla.pipeline")


def classes_jar(
    java: JavaRuntime, spark_home: Path, jars: Sequence[Path], local_files: Path | None = None
) -> Path | None:
    """The jar, made if it is missing; None if it can't be. jars: further ones on Spark's class path.

    local_files: the jar of Hadoop's local files in pure Java, on which LAKE_COMMITS_CLASS stands, if there.
    """
    own: tuple[str, ...] = (_BUILDER,)
    if local_files is not None:
        own, jars = (_BUILDER, _LAKE_COMMITS), [*jars, local_files]
    try:
        texts = {
            f"{name}.java": resources.files(package).joinpath(f"{name}.java").read_text(encoding="utf-8")
            for package, names in {**_SOURCES, __package__: own}.items()
            for name in names
        }
        compiled_with = sorted(path.name for path in (spark_home / "jars").iterdir())
        jar = cache_directory() / _DIRECTORY / f"ottla-{_digest(texts, compiled_with, jars)}.jar"
        if not jar.is_file():
            _build(jar, texts, java, [spark_home / "jars" / "*", *jars])
        return jar
    except (OSError, subprocess.SubprocessError) as error:
        words = getattr(error, "stderr", None) or b""
        log.info(
            "ottla's classes for the JVM can't be made: %s %s", error, words[-2_000:].decode(errors="replace")
        )
        return None


def _digest(texts: dict[str, str], compiled_with: Iterable[str], jars: Iterable[Path]) -> str:
    facts = [*compiled_with, *(jar.name for jar in jars), *(part for each in texts.items() for part in each)]
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:20]


def _build(jar: Path, texts: dict[str, str], java: JavaRuntime, class_path: Sequence[Path]) -> None:
    jar.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".building-", dir=jar.parent) as name:
        directory = Path(name)
        for file, text in texts.items():
            (directory / file).write_text(text, encoding="utf-8")
        made = directory / jar.name
        sources = [str(directory / file) for file in texts if file != f"{_BUILDER}.java"]
        command = [str(java.executable), *_JVM_OPTIONS, "-cp", os.pathsep.join(map(str, class_path))]
        command += ["org.codehaus.janino.SimpleCompiler", str(directory / f"{_BUILDER}.java"), _BUILDER]
        subprocess.run(
            [*command, str(made), *sources],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=True,
        )
        with made.open("rb") as finished:
            os.fsync(finished.fileno())
        with contextlib.suppress(FileExistsError):
            os.replace(made, jar)
