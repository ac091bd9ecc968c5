"""Groups and commands on the frame: late imports, help with examples, errors in one line, exit codes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ottla.cli.frame.commands import LazyGroup, command, group
from ottla.cli.frame.entries import Entry
from ottla.cli.frame.errors import ExitCode, did_you_mean
from ottla.cli.frame.running import run_async, run_command
from ottla.cli.main import COMMANDS, main
from ottla.cli.main import ottla as whole_command
from ottla.config.errors import UsageError, UserError

CLICK_AND_FRAME = ("ottla.cli.frame", "ottla.cli.main", "ottla.cli.servers.broker_options")


def loaded_by(words: list[str], **variables: str) -> set[str]:
    """The modules that a run of the command has loaded."""
    program = f"import sys; from ottla.cli.main import main; main({words!r}); print(*sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), **variables},
    )
    return set(run.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        (["--help"], {}),
        (["--version"], {}),
        (["nonsense"], {}),
        ([], {"_OTTLA_COMPLETE": "bash_complete", "COMP_WORDS": "ottla p", "COMP_CWORD": "1"}),
    ],
    ids=["help", "version", "no such command", "completion"],
)
def test_the_top_level_imports_no_command(words: list[str], variables: dict[str, str]) -> None:
    loaded = loaded_by(words, **variables)
    ours = {name for name in loaded if name.startswith("ottla.cli.") and not name.startswith(CLICK_AND_FRAME)}
    assert not ours - {"ottla.cli.servers"}
    assert not {name for name in loaded if name.startswith(("asyncio", "rich", "aiokafka", "ottla.client."))}


def test_a_command_about_a_cluster_imports_no_other_command_and_no_client_library() -> None:
    loaded = loaded_by(["partition", "list", "--bootstrap", "127.0.0.1:1"])
    assert "ottla.cli.cluster.partition" in loaded
    assert not {name for name in loaded if name.startswith(("aiokafka", "confluent_kafka", "rich", "uvloop"))}
    assert not {"ottla.cli.cluster.quorum", "ottla.cli.profile", "ottla.cli.servers.up"} & loaded


def test_every_entry_has_a_summary_that_fits_a_line() -> None:
    for name, entry in COMMANDS.items():
        assert len(f"  {name:10}  {entry.summary}") <= 80 and not entry.summary.endswith("."), name
        assert entry.summary[0].isupper(), name


def commands_of(found: click.Command, path: str) -> list[tuple[str, click.Command]]:
    """The command and all below it, by their words."""
    if not isinstance(found, click.Group):
        return [(path, found)]
    with click.Context(found, info_name=path) as context:
        below = []
        for name in found.list_commands(context):
            with contextlib.suppress(UserError):  # its module comes with another version
                below.append((name, found.get_command(context, name)))
    return [
        (path, found),
        *(each for name, sub in below if sub for each in commands_of(sub, f"{path} {name}")),
    ]


def registered() -> list[tuple[str, click.Command]]:
    """All commands that this version has, by their words."""
    whole = whole_command()
    found = []
    with click.Context(whole, info_name="ottla") as context:
        for name in COMMANDS:
            try:
                top = whole.get_command(context, name)
            except UserError:  # its module comes with another version
                continue
            assert top is not None
            found += commands_of(top, f"ottla {name}")
    return found


@pytest.mark.parametrize(
    ("path", "each"), registered(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_has_help_and_an_example(path: str, each: click.Command) -> None:
    assert each.help
    if isinstance(each, click.Group):
        return
    examples = getattr(each, "examples", ())
    assert any(path in line for line in examples), "no example"
    for parameter in each.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.help, parameter.name
    # What click wraps fits 80 columns; a table in a help text may be a little wider.
    shown = each.get_help(click.Context(each, info_name=path, terminal_width=80))
    described = shown[: shown.find("Examples:")]
    assert max(map(len, described.splitlines())) <= 110, shown


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("ottla par", ["plain,partition"]),
        ("ottla partition ", ["plain,reassign", "plain,list", "plain,elect"]),
        ("ottla partition elect p", ["plain,preferred"]),
        ("ottla quorum status --js", ["plain,--json"]),
        ("ottla quorum status --profile ", []),
        ("ottla nonsense --j", []),
        ("ottla later ", []),
    ],
)
def test_a_line_is_completed_and_nothing_else_is_written(
    line: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(COMMANDS, "later", Entry("ottla.cli.of_another_version.later:later", "Comes later"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("_OTTLA_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    assert main([]) in (0, 1)
    out, err = capsys.readouterr()
    assert (sorted(out.split()), err) == (sorted(words), "")


@pytest.mark.parametrize("columns", [36, 40, 60, 80])
def test_help_fits_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for words in (["--help"], ["quorum", "--help"], ["quorum", "status", "--help"], ["profile", "--help"]):
        assert main(words) == 0
        shown = capsys.readouterr().out
        lines = shown[: shown.find("Examples:")].splitlines() if "Examples:" in shown else shown.splitlines()
        assert [line for line in lines if len(line) > columns and " " in line.strip()] == []


def test_a_groups_help_has_the_first_sentences_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quorum", "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "status Show the leader, the voters and the observers, and how far each has come add Turn" in shown


def test_a_command_whose_module_is_missing_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    lazy = LazyGroup(
        "ottla", entries={"later": Entry("ottla.cli.of_another_version.later:later", "Comes later")}
    )
    assert run_command(lazy, ["later", "list"]) == ExitCode.FAILED
    assert capsys.readouterr().err == "ottla: this version of ottla does not have `ottla later`\n"


def test_a_missing_package_is_told_and_a_broken_module_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ottla_needs.py").write_text("import no_such_package_at_all\n")
    (tmp_path / "ottla_broken.py").write_text("import ottla.no_such_module\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    entries = {"needs": Entry("ottla_needs:run", ""), "broken": Entry("ottla_broken:run", "")}
    lazy = LazyGroup("ottla", entries=entries)
    assert run_command(lazy, ["needs"]) == ExitCode.FAILED
    told = "ottla: `ottla needs` needs the package no_such_package_at_all: pip install 'ottla[all]'\n"
    assert capsys.readouterr().err == told
    with pytest.raises(ModuleNotFoundError):
        run_command(lazy, ["broken"])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["partiton", "list"], "ottla: there is no command 'partiton'; did you mean partition?"),
        (["xyzzy"], "ottla: there is no command 'xyzzy'; `ottla --help` tells how to use it"),
        (["partition", "lst"], "ottla partition: there is no command 'lst'; did you mean list?"),
        (
            ["partition", "list", "--jsn"],
            "ottla partition list: there is no option --jsn; did you mean --json?",
        ),
        (
            ["partition", "list", "--bootstrap"],
            "ottla partition list: option '--bootstrap' requires an argument; `ottla partition list --help` "
            "tells how to use it",
        ),
        (["partition", "list", "--json", "-q"], "ottla partition list: give --json or --quiet, not both"),
        (["quorum", "unregister"], "ottla quorum unregister: give --broker or --controller"),
        (
            ["quorum", "unregister", "--broker", "1", "--controller", "2"],
            "ottla quorum unregister: --controller can't be given together with --broker",
        ),
        (
            ["broker", "--brokers", "many"],
            "ottla broker: invalid value for '--brokers': 'many' is not a valid int",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_one_line_with_advice(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == ExitCode.USAGE
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert out == "" and line.startswith(told)


def test_a_group_without_words_shows_its_help_and_help_is_a_word_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == ExitCode.USAGE
    shown = capsys.readouterr().out
    assert main(["help"]) == main(["--help"]) == main(["-h"]) == ExitCode.DONE
    assert capsys.readouterr().out == shown * 3
    assert main(["help", "partition", "list"]) == ExitCode.DONE
    assert "Examples:\n  ottla partition list\n" in capsys.readouterr().out


def failing_with(error: BaseException) -> click.Command:
    @group("topic")
    def topic() -> None:
        """Topics."""

    @topic.command("describe")
    def describe() -> None:
        raise error

    return topic


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (
            UserError("topic orders does not exist; did you mean order?"),
            1,
            "topic orders does not exist; did you",
        ),
        (UserError("two\n lines\x1b[31m of it"), 1, r"two lines\x1b[31m of it"),
        (UsageError("give --broker"), 2, "give --broker"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "a.json"),
            1,
            "a.json: No such file or dir",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device"),
    ],
)
def test_an_error_is_one_line_that_begins_with_the_commands_words(
    error: BaseException, code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(failing_with(error), ["describe"], "ottla topic") == code
    out, err = capsys.readouterr()
    (line,) = err.splitlines()
    assert out == "" and line.startswith(f"ottla topic describe: {told}")


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (click.Abort(), 130)])
def test_an_interrupted_command_says_nothing(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(failing_with(error), ["describe"]) == code
    assert capsys.readouterr() == ("", "")


def test_a_mistake_of_ottlas_own_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        run_command(failing_with(ZeroDivisionError()), ["describe"])


def test_the_first_error_of_a_task_group_is_told() -> None:
    async def fail(error: Exception) -> None:
        raise error

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail(ValueError("ours")))
            tasks.create_task(fail(UserError("theirs")))

    with pytest.raises(UserError, match="theirs"):
        run_async(both())


def test_a_commands_number_is_its_exit_code() -> None:
    @command("bench")
    def bench() -> int:
        """Measure."""
        return 3

    assert run_command(bench, []) == 3


def test_similar_names_are_suggested() -> None:
    assert did_you_mean("orders", ["order", "payments"]) == "; did you mean order?"
    assert did_you_mean("orders", ["payments"]) == ""
    assert did_you_mean("orders", []) == ""


LONG_LISTING = """
import sys
from ottla.cli.frame.commands import command
from ottla.cli.frame.output import Output
from ottla.cli.frame.running import run_command

@command("list")
def run():
    Output().listing([{"name": "x" * 99}] * 99_999)

sys.exit(run_command(run, []))
"""


def in_bash(line: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a line in which "$1" is Python and "$2" the first of the words."""
    command_line = ["bash", "-c", line, "bash", sys.executable, *words]
    return subprocess.run(command_line, capture_output=True, text=True, timeout=60, check=False)


def test_a_reader_that_goes_ends_the_command_silently(tmp_path: Path) -> None:
    program = tmp_path / "listing.py"
    program.write_text(LONG_LISTING)
    done = in_bash('"$1" "$2" | head -1; echo "${PIPESTATUS[0]}"', str(program))
    assert (done.stdout, done.stderr) == ("name\n141\n", "")


def test_a_full_disk_is_told() -> None:
    done = in_bash('"$1" -m ottla --help > /dev/full; echo $?')
    assert (done.stdout, done.stderr) == ("1\n", "ottla: No space left on device\n")
