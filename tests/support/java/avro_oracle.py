"""Apache Avro's own Java library, 1.12.0, asked about schemas."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ottla.pipeline.spark.maven import Jar, fetch_jars
from support.java.java_tools import java_command

ORACLE = Path(__file__).parents[1] / "java" / "AvroOracle.java"
JARS = (
    "commons-compiler-*.jar",
    "jackson-annotations-*.jar",
    "jackson-core-[0-9].[0-9]*.jar",
    "jackson-databind-*.jar",
    "janino-*.jar",
    "slf4j-api-*.jar",
)


# Not PySpark's copy: 1.12.1, which Spark 4.1 has, takes a record that is defined twice alike, and refuses the
# name of an enclosing record without a namespace within one that has a namespace.
AVRO = Jar(
    "org.apache.avro", "avro", "1.12.0", "1f5fbfff9b7427d6832cc3031a3c81413d3e21d9e2551847d9231c28493f9492"
)


class RefusedByJava(Exception):
    """The error of Java's parser for a text that it refuses."""


@dataclass(frozen=True, slots=True)
class AvroOracle:
    """One Java process; a question and an answer a line."""

    process: subprocess.Popen[str]

    def canonical_text(self, text: str, *, new: bool = True) -> str:
        """`Schema.toString()` of a parsed text; `new` checks defaults. Raises RefusedByJava."""
        return self._ask("text" if new else "stored", text)

    def canonical_text_within(self, referenced: str, text: str) -> str:
        """The same of a text that refers to another one's types."""
        return self._ask("within", referenced, text)

    def incompatibilities(self, reader: str, writer: str) -> list[tuple[str, str, str]]:
        """Type, location and message of each. Raises RefusedByJava where Java throws."""
        lines = self._ask("compare", reader, writer).splitlines()
        return [(kind, place, message) for kind, place, message in (line.split("\t") for line in lines)]

    def _ask(self, word: str, *texts: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        encoded = (base64.b64encode(text.encode()).decode() for text in texts)
        self.process.stdin.write(" ".join((word, *encoded)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, "the Java program ended"
        verdict, _, told = answer.rstrip("\n").partition(" ")
        text = base64.b64decode(told).decode()
        if verdict != "ok":
            raise RefusedByJava(text)
        return text


@contextmanager
def avro_oracle() -> Iterator[AvroOracle]:
    """PySpark's Janino compiles the program: Java may come without a compiler."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    of_spark = (path for pattern in JARS for path in sorted(jars.glob(pattern)))
    class_path = os.pathsep.join(str(path) for path in (*fetch_jars([AVRO]), *of_spark))
    command = java_command(
        "org.codehaus.janino.SimpleCompiler", str(ORACLE), "AvroOracle", class_path=class_path
    )
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        bufsize=1,
    ) as process:
        try:
            yield AvroOracle(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
