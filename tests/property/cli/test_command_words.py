"""Whatever its words are, a command ends with one of its exit codes and a line, never a traceback."""

from __future__ import annotations

import contextlib
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ottla.cli.frame.errors import ExitCode
from ottla.cli.servers.broker_command import broker
from ottla.cli.servers.broker_options import BrokerOptions, plain_options
from support.commands.words import VALUES, lines, run


@contextlib.contextmanager
def nowhere() -> Iterator[str]:
    """An address at which nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@given(lines())
@settings(max_examples=300, deadline=None)
@example(["quorum", "remove", "--node", str(2**70)])
@example(["partition", "elect", "preferred", "--topic", "a", "--partition", str(2**31)])
def test_any_words_end_with_an_exit_code_and_a_line(line: list[str]) -> None:
    with tempfile.TemporaryDirectory() as home, nowhere() as bootstrap:
        code, out, err = run(line, home, bootstrap)
    assert code in (ExitCode.DONE, ExitCode.FAILED, ExitCode.USAGE), (line, code)
    assert "Traceback" not in out + err
    if code == ExitCode.USAGE:
        (told,) = err.splitlines()
        assert told.startswith("ottla ")
    elif code == ExitCode.FAILED:
        assert err.startswith("ottla "), err


@given(st.lists(VALUES, max_size=4))
@settings(max_examples=100, deadline=None)
def test_a_server_that_can_t_be_is_told_before_any_is_asked(servers: list[str]) -> None:
    with tempfile.TemporaryDirectory() as home:
        told = ",".join(["127.0.0.1:1", *servers, "x:y"])
        code, _, err = run(["quorum", "status", "--bootstrap", told], home, "")
    assert code == ExitCode.FAILED
    (line,) = err.splitlines()
    assert line.endswith("is not HOST:PORT")


BROKER_OPTIONS = ("--data", "--listen", "--brokers", "--config", "--set", "--cluster-id", "--log-level")
BROKER_WORDS = st.one_of(
    st.sampled_from(["--with-launcher", "--help", "--", "warning", "debug", "3", "a=b"]), VALUES
)
BROKER_LINES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(BROKER_OPTIONS), BROKER_WORDS).map(list),
        st.tuples(st.sampled_from(BROKER_OPTIONS), BROKER_WORDS).map(lambda pair: [f"{pair[0]}={pair[1]}"]),
        BROKER_WORDS.map(lambda word: [word]),
    ),
    max_size=5,
).map(lambda parts: [word for part in parts for word in part])


@given(BROKER_LINES)
@settings(max_examples=500, deadline=None)
@example(
    ["--data=a", "--listen", "127.0.0.1:0", "--set", "a=b", "--set=c=d", "--log-level", "info", "--brokers=3"]
)
def test_a_plain_line_of_the_broker_means_what_click_reads_in_it(line: list[str]) -> None:
    plain = plain_options(line)
    if plain is None:
        return
    with broker.make_context("ottla broker", list(line)) as context:
        assert plain == BrokerOptions(**context.params)


def test_the_usual_lines_of_a_broker_are_plain() -> None:
    line = [
        "--data",
        "d",
        "--listen",
        "127.0.0.1:0",
        "--set",
        "a=b",
        "--cluster-id",
        "c",
        "--log-level",
        "info",
    ]
    assert plain_options(line) == BrokerOptions(
        data=Path("d"), listen="127.0.0.1:0", set_words=("a=b",), cluster_id="c", log_level="info"
    )
    for mistake in (
        ["--help"],
        ["--brokers", "x"],
        ["--log-level", "loud"],
        ["--data"],
        ["--nonsense", "1"],
        ["x"],
    ):
        assert plain_options(mistake) is None
