"""Runs ShareConsumers.java: Java's share consumers, which decide by a record's value what becomes of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.java.java_tools import java_command, kafka_classpath

PROGRAM = Path(__file__).with_name("ShareConsumers.java")
TIMEOUT_S = 180


def run_share_consumers(
    bootstrap: str, topics: Sequence[str], groups: Sequence[str], *, count: int, hold_ms: int, idle_ms: int
) -> list[list[str]]:
    """The lines that `count` consumers print, split into words, once no record has come for `idle_ms`.

    The consumers take topics and groups by turns; those of slow records hold them for `hold_ms`.
    """
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    janino = [
        str(path) for pattern in ("janino-*.jar", "commons-compiler-*.jar") for path in jars.glob(pattern)
    ]
    numbers = (str(count), str(hold_ms), str(idle_ms))
    command = java_command(
        "org.codehaus.janino.SimpleCompiler",
        str(PROGRAM),
        "ShareConsumers",
        *(bootstrap, ",".join(topics), ",".join(groups), *numbers),
        class_path=os.pathsep.join((kafka_classpath(), *janino)),
    )
    run = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    said = [line.split() for line in run.stdout.splitlines()]
    assert not [words for words in said if words[0] == "failed"], said
    return said
