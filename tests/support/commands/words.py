"""Lines of words for the command: those that it knows, and others, drawn at random."""

from __future__ import annotations

import contextlib
import io

import click
import pytest
from hypothesis import strategies as st

from ottla.cli.main import COMMANDS, main
from ottla.cli.main import ottla as whole_command
from ottla.config.errors import UserError

#: Start processes that end with a signal, or take seconds; their words are tried with `--help` in the end.
SERVERS = ("audit", "balance", "broker", "demo", "doctor", "mqtt", "registry", "rest", "streams", "up")
#: The words below a command that start one.
WORKERS = ("serve", "server", "worker", "standalone")


def commands_below(
    found: click.Command, words: tuple[str, ...]
) -> list[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(found, click.Group):
        return [(words, found)]
    with click.Context(found, info_name=" ".join(words)) as context:
        below = []
        for name in found.list_commands(context):
            with contextlib.suppress(UserError):
                below.append((name, found.get_command(context, name)))
    own = [(words, found)] if found.invoke_without_command else []
    return own + [each for name, sub in below if sub for each in commands_below(sub, (*words, name))]


def registered() -> list[tuple[tuple[str, ...], click.Command]]:
    """The words of each command that this version has, and the command."""
    whole = whole_command()
    found = []
    for name in COMMANDS:
        with click.Context(whole, info_name="ottla") as context, contextlib.suppress(UserError):
            top = whole.get_command(context, name)
            assert top is not None
            found += commands_below(top, (name,))
    return found


REGISTERED = registered()
NUMBERS = st.one_of(st.integers(-(2**70), 2**70), st.floats()).map(str)
TEXT = st.text(st.characters(exclude_characters="\0"), max_size=12)
ODD = st.sampled_from(
    [
        "",
        "-",
        "--",
        "=",
        "-1",
        "@",
        "@now",
        "%",
        "%s%",
        "{}",
        "[",
        "a..b:1",
        "[::1]:0",
        ":",
        ",",
        "a=b",
        "=b",
        "ü",
        "\udcff",
    ]
)
VALUES = st.one_of(NUMBERS, TEXT, ODD)


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    """A command and words that it may know."""
    words, command = draw(st.sampled_from(REGISTERED))
    line = list(words)
    for _ in range(draw(st.integers(0, 6))):
        parameter = draw(st.sampled_from([None, *command.params]))
        if not isinstance(parameter, click.Option) or parameter.name in ("bootstrap", "use"):
            line.append(draw(VALUES))
            continue
        option = draw(st.sampled_from([*parameter.opts, *parameter.secondary_opts]))
        if parameter.is_flag:
            line.append(option)
        elif isinstance(parameter.type, click.Choice) and draw(st.booleans()):
            line += [option, str(draw(st.sampled_from(list(parameter.type.choices))))]
        elif draw(st.booleans()):
            line += [option, draw(VALUES)]
        else:
            line.append(f"{option}={draw(VALUES)}")
    return [*line, "--help"] if words[0] in SERVERS or words[-1] in WORKERS else line


def run(line: list[str], home: str, bootstrap: str) -> tuple[int, str, str]:
    """The exit code of a line, and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setenv("XDG_CONFIG_HOME", home)
        patch.setenv("OTTLA_BOOTSTRAP", bootstrap)
        patch.delenv("OTTLA_PROFILE", raising=False)
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\n"), encoding="utf-8"))
        patch.chdir(home)
        code = main(line)
    return code, out.getvalue(), err.getvalue()
