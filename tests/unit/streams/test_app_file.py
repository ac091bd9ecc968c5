"""`ottla streams`: the application in a user's file, and the command without Spark and without a broker."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.main import main as ottla
from ottla.streams.run.app_file import AppError, load_app, module_of, ship_with_functions
from ottla.streams.run.settings import StreamsSettings

ONE = """
from ottla.streams import Streams

app = Streams("one")
app.stream("in").to("out")

if __name__ == "__main__":
    raise AssertionError("run as a program")
"""
TWO = ONE + '\nother = Streams("two")\nother.stream("in").to("out")\nnothing = 3\n'


def streams(words: list[str]) -> int:
    """The command's exit code."""
    return ottla(["streams", *words])


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Modules, their search path and the environment are put back."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith("ottla_app_") or name in ("shop", "shop.orders", "neighbour_of_an_app"):
            del sys.modules[name]


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_one_application_of_a_file_is_found(tmp_path: Path) -> None:
    assert load_app(write(tmp_path / "app.py", ONE)).name == "one"


def test_one_of_several_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "app.py", TWO)
    assert load_app(f"{path}:other").name == "two"
    assert load_app(path, "other").name == "two"
    with pytest.raises(AppError, match=r"2 applications .* found, one is needed; --name says which"):
        load_app(path)
    with pytest.raises(AppError, match="missing is not there"):
        load_app(path, "missing")
    with pytest.raises(AppError, match="nothing is a int, an object of Streams is needed"):
        load_app(path, "nothing")


def test_a_module_is_found_from_where_the_command_is_called(tmp_path: Path) -> None:
    write(tmp_path / "shop" / "__init__.py", "")
    write(tmp_path / "shop" / "orders.py", ONE)
    assert load_app("shop.orders").name == "one"
    assert load_app("shop.orders:app").name == "one"
    with pytest.raises(AppError, match=r"no module shop\.nothing"):
        load_app("shop.nothing")


def test_a_file_imports_its_neighbours_and_so_will_its_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    write(tmp_path / "elsewhere" / "neighbour_of_an_app.py", "TOPIC = 'in'\n")
    path = write(tmp_path / "elsewhere" / "app.py", "from neighbour_of_an_app import TOPIC\n" + ONE)
    assert load_app(path).name == "one"
    assert os.environ["PYTHONPATH"] == str(tmp_path / "elsewhere")


def test_a_mistake_in_the_topology_is_told_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "app.py", ONE + 'app.stream("in", name="a")\napp.stream("in", name="a")\n')
    assert streams(["describe", path]) == 1
    assert capsys.readouterr().err == f"ottla streams describe: {path}, line 10: two nodes are named a\n"


def test_a_failing_file_shows_its_own_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "app.py", "def of():\n    return 1 / 0\n\nof()\n")
    assert streams(["describe", path]) == 1
    told = capsys.readouterr().err.splitlines()
    assert told[0] == "Traceback (most recent call last):"
    assert told[1] == f'  File "{path}", line 4, in <module>'
    assert told[-2:] == [
        "ZeroDivisionError: division by zero",
        f"ottla streams describe: {path} can't be loaded",
    ]


def test_a_file_with_wrong_syntax_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "app.py", "app = = 3\n")
    assert streams(["describe", path]) == 1
    told = capsys.readouterr().err
    assert f'File "{path}", line 1' in told
    assert "SyntaxError" in told


def test_a_file_that_runs_itself_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "app.py", ONE + "app.run()\n")
    assert streams(["describe", path]) == 1
    assert "one is run while it is loaded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["describe", "missing.py"], 1, "ottla streams describe: there is no file missing.py\n"),
        (["run", "missing.py"], 1, "ottla streams run: there is no file missing.py\n"),
        (["describe", "no-module"], 1, "no-module is neither a Python file nor a module's name\n"),
        (["reset"], 2, "reset needs APP or --application, one of both\n"),
        (["reset", "a.py", "--application", "a"], 2, "reset needs APP or --application, one of both\n"),
    ],
)
def test_an_application_that_is_not_there_is_told_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, told: str
) -> None:
    assert streams(arguments) == code
    assert capsys.readouterr().err.endswith(told)


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "app.py", "--partitions", "0"],
        ["run", "app.py", "--metrics", "70000"],
        ["run", "app.py", "--heartbeat", "0"],
        ["run", "app.py", "--replay-from", "yesterday"],
        ["reset", "app.py", "--to-earliest", "--to-latest"],
        ["describe", "app.py", "--json", "--mermaid"],
        [],
    ],
)
def test_wrong_usage_ends_with_2(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert streams(arguments) == 2
    out, err = capsys.readouterr()
    assert len(err.splitlines()) == 1 if arguments else out


@pytest.mark.parametrize("option", ["--set", "--spark"])
def test_a_pair_without_a_value_is_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    path = write(tmp_path / "app.py", ONE)
    assert streams(["run", path, option, "nonsense", "--plain"]) == 2
    assert f"{option} nonsense: write it as key=value" in capsys.readouterr().err


def test_an_application_that_writes_nowhere_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "app.py", 'from ottla.streams import Streams\napp = Streams("one")\n')
    assert streams(["describe", path]) == 1
    assert capsys.readouterr().err.startswith("ottla streams describe: one writes nowhere")


def test_describe_in_all_its_forms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "app.py", ONE)
    assert streams(["describe", path]) == 0
    assert capsys.readouterr().out.startswith("one: 1 query\n")
    assert streams(["describe", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["application"] == "one"
    assert streams(["describe", path, "--mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart TB\n")
    assert streams(["describe", path, "--svg", "-"]) == 0
    drawn = capsys.readouterr().out
    assert drawn.startswith("<svg ")
    assert streams(["describe", path, "--svg", str(tmp_path / "one.svg")]) == 0
    assert (tmp_path / "one.svg").read_text(encoding="utf-8") == drawn
    assert streams(["describe", path, "--svg", str(tmp_path / "nowhere" / "one.svg")]) == 1
    assert "No such file or directory" in capsys.readouterr().err


def test_options_become_settings_and_the_rest_stays_as_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ottla.streams.run import application

    seen: list[StreamsSettings] = []

    def start(topology: object, settings: StreamsSettings, **_: object) -> None:
        seen.append(settings)
        raise application.StreamsError("one: topic in does not exist")

    monkeypatch.setattr(application, "start", start)
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "far:9092")
    path = write(tmp_path / "app.py", ONE)
    options = ["--heartbeat", "1.5", "--replay-from", "2026-01-31T12:00:00Z", "--queries-port", "0"]
    options += ["--set", "sasl.username=me", "--spark", "spark.ui.enabled=true", "--state", "there"]
    assert streams(["run", path, "--plain", "--partitions", "7", "--dead-letters", "dead", *options]) == 1
    assert capsys.readouterr().err == "ottla streams run: one: topic in does not exist\n"
    default = StreamsSettings()
    assert seen == [
        StreamsSettings(
            bootstrap="far:9092",
            state=Path("there"),
            dead_letters="dead",
            partitions=7,
            heartbeat_ms=1_500,
            replay_from_ms=1_769_860_800_000,
            queries_port=0,
            client_options={"sasl.username": "me"},
            spark_properties={"spark.ui.enabled": "true"},
        )
    ]
    assert seen[0].spark.master == default.spark.master
    assert not seen[0].pace.until_caught_up


def test_an_application_runs_until_a_signal_and_tells_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ottla.pipeline.query.realtime import Mode, ModeKind
    from ottla.streams.run.application import RunningStreams

    closed: list[str] = []

    def begin(running: RunningStreams) -> None:  # all but Spark
        running.modes["one-to-0002"] = Mode(ModeKind.MICRO_BATCH, "asked for")
        waiting = running.stopping_on_signals

        @contextlib.contextmanager
        def signalled() -> Iterator[None]:
            with waiting():
                signal.raise_signal(signal.SIGTERM)
                yield

        monkeypatch.setattr(running, "stopping_on_signals", signalled)

    monkeypatch.setattr(RunningStreams, "begin", begin)
    monkeypatch.setattr(RunningStreams, "queries_url", "http://127.0.0.1:8090")
    monkeypatch.setattr(RunningStreams, "close", lambda running: closed.append(running.topology.name))
    path = write(tmp_path / "app.py", ONE)
    assert streams(["run", path, "--plain", "--bootstrap", "far:9092", "--state", "there"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "one runs on far:9092: 0 queries, state in there/one; Ctrl-C stops it",
        "  one-to-0002: micro-batch: asked for",
        "tables answer at http://127.0.0.1:8090/tables",
        "but there are none: name them with Table.materialize()",
        "one is stopping: the batch that runs is finished first",
        "one has stopped",
    ]
    assert closed == ["one"]


def test_a_start_that_is_refused_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ottla.pipeline.query.source import SourceError
    from ottla.streams.run.application import RunningStreams

    def begin(running: RunningStreams) -> None:
        raise SourceError("topic in does not exist")

    monkeypatch.setattr(RunningStreams, "begin", begin)
    assert streams(["run", write(tmp_path / "app.py", ONE), "--plain"]) == 1
    assert capsys.readouterr().err == "ottla streams run: one: topic in does not exist\n"


def test_functions_of_the_file_travel_whole(tmp_path: Path) -> None:
    """Spark's workers don't have the file's module: a pickled function must not only name it."""
    from pyspark import cloudpickle

    text = ONE + "\nfrom dataclasses import dataclass\n\n@dataclass\nclass Order:\n    n: int\n"
    path = write(tmp_path / "app.py", text + "\ndef twice(n):\n    return Order(2 * n)\n")
    load_app(path)
    ship_with_functions(module_of(path))
    pickled = tmp_path / "function"
    pickled.write_bytes(cloudpickle.dumps(sys.modules[module_of(path)].twice))
    program = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb'))(21).n)"
    done = subprocess.run([sys.executable, "-c", program, str(pickled)], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("42\n", "")
