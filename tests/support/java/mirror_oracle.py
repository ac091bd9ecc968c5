"""Runs MirrorOracle.java: MirrorMaker 2's records, its store of offset syncs, RemoteClusterUtils (4.3.1)."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import ottla.connect
from ottla.pipeline.spark.maven import fetch_jars
from support.java.java_tools import compile_java, jars_of, java_command

PROGRAM = Path(__file__).with_name("MirrorOracle.java")
WORKER_LOCK = Path(ottla.connect.__path__[0]) / "java" / "connect.jars.lock"
TIMEOUT_S = 120


def mirror_classpath() -> str:
    """The class path of MirrorMaker 2 4.3.1 with the Connect worker that it runs on."""
    return os.pathsep.join(map(str, fetch_jars(jars_of(WORKER_LOCK))))


def ask_mirror(questions: Sequence[Sequence[str | int]], directory: Path) -> list[str]:
    """The answer to each question, a line each. See MirrorOracle.java; texts go through `base64_of`."""
    class_path = compile_java([PROGRAM], mirror_classpath(), directory)
    lines = "".join("\t".join(map(str, words)) + "\n" for words in questions)
    command = java_command("org.apache.kafka.connect.mirror.MirrorOracle", class_path=class_path)
    run = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    answers = run.stdout.splitlines()
    assert len(answers) == len(questions), run.stdout[-3000:]
    return answers


def translated_offsets(
    bootstrap: str, source_alias: str, group: str, directory: Path
) -> dict[tuple[str, int], int]:
    """RemoteClusterUtils.translateOffsets of a group, on the target cluster."""
    (answer,) = ask_mirror([("translate", bootstrap, source_alias, base64_of(group))], directory)
    found = {}
    for word in answer.split():
        place, _, offset = word.rpartition("=")
        topic, _, partition = place.rpartition("-")
        found[topic, int(partition)] = int(offset)
    return found


def base64_of(text: str) -> str:
    """A text as the program takes it."""
    return base64.b64encode(text.encode()).decode()
