"""What a command tells of several things that it acts on, of which some may fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from ottla.cli.frame.errors import ExitCode, did_you_mean
from ottla.cli.frame.output import Output
from ottla.cli.frame.running import tell
from ottla.client.errors import NoSuchTopic
from ottla.config.errors import UserError


def no_such_topic(name: str, names: Iterable[str]) -> NoSuchTopic:
    """The error for a topic that is not among the cluster's names, with those that are alike."""
    return NoSuchTopic(f"topic {name} does not exist{did_you_mean(name, names)}")


class Outcomes:
    """Tells what became of each of the things that a command acts on: results on stdout, errors on stderr."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._path = click.get_current_context().command_path
        self._failures = 0

    def done(self, sentence: str, result: Mapping[str, Any]) -> None:
        """Tell of a thing that was done."""
        self._output.done(sentence, result)

    def failed(self, problem: UserError | str) -> None:
        """Tell of a thing that failed; the others go on."""
        self._failures += 1
        tell(self._path, str(problem))

    @property
    def exit_code(self) -> ExitCode:
        """FAILED if any of them failed."""
        return ExitCode.FAILED if self._failures else ExitCode.DONE
