"""Manual pages: one of `ottla`, and one of each command of the top level, with its commands as sections."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from commands.tree import Registered
from ottla import __version__
from ottla.cli.main import COMMANDS

NOTE: Final = r".\" Written by tools/generate_commands.py (`make commands`) from the commands themselves."
ENVIRONMENT: Final = (
    ("OTTLA_BOOTSTRAP", "The cluster that commands ask if their line names none: HOST:PORT,…"),
    ("OTTLA_PROFILE", "The profile of that cluster."),
    ("NO_COLOR", "If it is not empty, nothing is coloured."),
    ("XDG_CONFIG_HOME", "Profiles are in its folder ottla; ~/.config if it is not set."),
)
EXIT_STATUS: Final = (
    ("0", "Done."),
    ("1", "Failed; a line on stderr says why."),
    ("2", "Wrong usage."),
    ("3", "Done, and found that for which a failure was asked by --fail-on."),
    ("130", "Ended by Ctrl-C."),
    ("141", "The reader of the output has gone."),
)


def pages(commands: Sequence[Registered]) -> Mapping[str, str]:
    """The texts of the pages, by the names of their files."""
    found = {"ottla.1": _text(_overview(commands))}
    for top in commands:
        found[f"ottla-{top.name}.1"] = _text(_command_page(top))
    return found


def _text(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def _overview(commands: Sequence[Registered]) -> Iterator[str]:
    yield from _title("ottla", "Apache Kafka's platform in Python")
    yield from (".SH SYNOPSIS", r".B ottla", r"\fICOMMAND\fR [\fIOPTION\fR]...")
    yield ".SH COMMANDS"
    for top in commands:
        yield from (
            ".TP",
            rf".BR ottla\-{_escaped(top.name)} (1)",
            _escaped(COMMANDS[top.name].summary) + ".",
        )
    yield from _definitions("ENVIRONMENT", ENVIRONMENT)
    yield from _definitions("EXIT STATUS", EXIT_STATUS)


def _command_page(top: Registered) -> Iterator[str]:
    yield from _title(f"ottla-{top.name}", COMMANDS[top.name].summary)
    members = list(top.below())
    alone = [each.name for each in members] == [top.name]
    yield ".SH SYNOPSIS"
    for number, each in enumerate(members):
        if number:
            yield ".br"
        yield rf"\fB{_escaped(each.path)}\fR {_escaped(_usage(each))}"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(top.command.help or "")
    if alone:
        yield ".SH OPTIONS"
        yield from _listed(_options(top))
    else:
        records = [_options(each) for each in members]
        common = [record for record in records[0] if all(record in others for others in records)]
        yield ".SH COMMANDS"
        for each, options in zip(members, records, strict=True):
            yield rf".SS {_escaped(each.name.removeprefix(top.name).strip() or each.path)}"
            yield from _paragraphs(each.command.help or "")
            yield from _listed([record for record in options if record not in common])
        yield ".SH OPTIONS OF ALL COMMANDS"
        yield from _listed(common)
    if examples := [line for each in (top, *members) for line in each.examples]:
        yield from (".SH EXAMPLES", ".nf")
        yield from (_escaped(line) for line in dict.fromkeys(examples))
        yield ".fi"
    yield from _definitions("ENVIRONMENT", ENVIRONMENT)
    yield from _definitions("EXIT STATUS", EXIT_STATUS)
    yield from (".SH SEE ALSO", ".BR ottla (1)")


def _title(name: str, summary: str) -> Iterator[str]:
    yield NOTE
    yield f'.TH {name.upper().replace("-", chr(92) + "-")} 1 "" "ottla {__version__}" "ottla"'
    summary = summary[:1].lower() + summary[1:] if not summary.startswith("Apache") else summary
    yield from (".SH NAME", rf"{_escaped(name)} \- {_escaped(summary)}")


def _usage(each: Registered) -> str:
    with each.context() as context:
        return " ".join(each.command.collect_usage_pieces(context))


def _options(each: Registered) -> list[tuple[str, str]]:
    """The names and texts of a command's options."""
    with each.context() as context:
        records = [parameter.get_help_record(context) for parameter in each.command.get_params(context)]
    return [record for record in records if record is not None]


def _listed(options: Sequence[tuple[str, str]]) -> Iterator[str]:
    for names, text in options:
        yield from (".TP", rf"\fB{_escaped(names)}\fR", _escaped(" ".join(text.split())) or r"\&")


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs as click reads them: one after a line of `\\b` keeps its line ends."""
    for number, part in enumerate(re.split(r"\n\s*\n", inspect.cleandoc(text).replace("\f", ""))):
        if number:
            yield ".PP"
        if part.startswith("\b"):
            yield ".nf"
            yield from (_escaped(line) or r"\&" for line in part.split("\n")[1:])
            yield ".fi"
        else:
            yield _escaped(" ".join(part.split()))


def _definitions(heading: str, items: Sequence[tuple[str, str]]) -> Iterator[str]:
    yield f".SH {heading}"
    for name, text in items:
        yield from (".TP", rf"\fB{_escaped(name)}\fR", _escaped(text))


def _escaped(text: str) -> str:
    """The text for roff: backslashes, dashes that are to be copied, and dots at a line's beginning."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    escaped = escaped.replace("^", r"\(ha").replace("~", r"\(ti")
    return rf"\&{escaped}" if escaped.startswith(".") else escaped
