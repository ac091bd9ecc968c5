"""Whatever its words are, a command that reaches a cluster ends with an exit code, never with a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ottla.cli.frame.errors import ExitCode
from support.clients.confluent import create_topic, produce
from support.commands.words import lines, run
from support.servers.ottla_broker import OttlaBroker


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OttlaBroker]:
    """A broker of this module's own, whatever the words do to it, with the topic `a`."""
    with OttlaBroker.start(tmp_path_factory.mktemp("words") / "data") as running:
        create_topic(running.bootstrap, "a", partitions=2)
        produce(running.bootstrap, "a", [{"value": b"one"}, {"value": b"\xff", "key": b"k"}])
        yield running


def ending(line: list[str]) -> list[str] | None:
    """The line, so that its command ends by itself; None if it takes long whatever its words are."""
    match line[0]:
        case "bench":
            return None
        case "consume":
            return [*line, "--exit"]
        case "lag" if any(word.startswith("--watch") for word in line):
            return None
    return line


NUMBERS = ["0", "1", "-1", str(2**31 - 1), str(2**31), str(2**63), str(-(2**63) - 1), "9" * 5_000]


@given(lines(), st.sampled_from(["a", *NUMBERS]))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(["quorum", "remove", "--node", str(2**31)], "")
@example(["quorum", "unregister", "--broker", str(-(2**31) - 1)], "")
@example(["partition", "elect", "preferred", "--topic", "a", "--partition", str(2**31)], "")
@example(["partition", "reassign", "--topic", "a", "--brokers", str(2**31)], "")
@example(["partition", "reassign", "--topic", "a", "--replication-factor", str(2**31 - 1)], "")
def test_any_words_end_with_an_exit_code(
    broker: OttlaBroker, tmp_path_factory: pytest.TempPathFactory, line: list[str], last: str
) -> None:
    whole = ending([*line, *([last] if last else [])])
    if whole is None:
        return
    home: Path = tmp_path_factory.mktemp("home")
    code, out, err = run(whole, str(home), broker.bootstrap)
    assert code in (ExitCode.DONE, ExitCode.FAILED, ExitCode.USAGE, ExitCode.FOUND), (whole, code)
    assert "Traceback" not in out + err
    if code != ExitCode.DONE:
        assert err.startswith("ottla "), err
