"""Java's and Apache Kafka's own security classes, asked a question a line (SecurityOracle.java)."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.java.java_tools import java_command, kafka_classpath

ORACLE = Path(__file__).with_name("SecurityOracle.java")
#: Questions that are written before their answers are read: both pipes hold so many.
BATCH = 100


class RefusedByJava(Exception):
    """Java threw: the name of the exception and its words."""


@dataclass(frozen=True, slots=True)
class SecurityOracle:
    """One Java process."""

    process: subprocess.Popen[str]

    def ask(self, word: str, *arguments: str | bytes) -> str:
        """The answer to one question. Raises RefusedByJava."""
        (answer,) = self.ask_all([(word, *arguments)])
        if isinstance(answer, RefusedByJava):
            raise answer
        return answer

    def ask_all(self, questions: Sequence[tuple[str | bytes, ...]]) -> list[str | RefusedByJava]:
        """The answers to many, in their order."""
        answers: list[str | RefusedByJava] = []
        for start in range(0, len(questions), BATCH):
            answers += self._ask_batch(questions[start : start + BATCH])
        return answers

    def _ask_batch(self, questions: Sequence[tuple[str | bytes, ...]]) -> list[str | RefusedByJava]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for word, *arguments in questions:
            self.process.stdin.write(" ".join((str(word), *map(encoded, arguments))) + "\n")
        self.process.stdin.flush()
        return [decoded(self.process.stdout.readline()) for _ in questions]


def encoded(argument: str | bytes) -> str:
    return base64.b64encode(argument.encode() if isinstance(argument, str) else argument).decode()


def decoded(line: str) -> str | RefusedByJava:
    assert line, "the Java program ended"
    verdict, _, told = line.rstrip("\n").partition(" ")
    text = base64.b64decode(told).decode()
    return text if verdict == "ok" else RefusedByJava(text)


@contextmanager
def security_oracle() -> Iterator[SecurityOracle]:
    """PySpark's Janino compiles the program: Java may come without a compiler."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    janino = [str(path) for name in ("janino-*.jar", "commons-compiler-*.jar") for path in jars.glob(name)]
    class_path = os.pathsep.join((kafka_classpath(), *janino))
    command = java_command(
        "org.codehaus.janino.SimpleCompiler", str(ORACLE), "SecurityOracle", class_path=class_path
    )
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            yield SecurityOracle(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
