"""The packages of MQTT on npm, installed once; programs of ours that use them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conformance.suites import node_clients

from ottla.pipeline.spark.cache import cache_directory

DOWNLOADS = cache_directory() / "conformance"


def node_command(program: str, *arguments: str) -> tuple[list[str], Path]:
    """The command of one of `conformance/clients/node`, and the directory to run it in."""
    place = node_clients.installed(DOWNLOADS)
    for source in node_clients.PROGRAMS.glob("*.mjs"):
        shutil.copy(source, place)
    return [node_clients.node_of(place), program, *arguments], place


class LineProgram:
    """A program that answers each line of JSON with one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def ask(self, questions: Sequence[Any]) -> list[Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        answers: list[Any] = []
        for question in questions:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            assert line, "the program has ended"
            answers.append(json.loads(line))
        return answers


@contextmanager
def line_program(program: str) -> Iterator[LineProgram]:
    command, place = node_command(program)
    process = subprocess.Popen(
        command, cwd=place, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        yield LineProgram(process)
    finally:
        process.kill()
        process.communicate()
