"""`ottla connect WORD` against the answers of a Connect worker."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.main import main
from support.connect.fake_connect import LINES, SINK, SOURCE, FakeConnect

COPY = {"connector.class": SINK, "file": "/tmp/out", "topics": "lines"}
TRACE = """org.apache.kafka.connect.errors.ConnectException: no
\tat a.b(C.java:1)
Caused by: java.io.IOException: full
"""


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeConnect]:
    with FakeConnect.running() as running:
        monkeypatch.setenv("OTTLA_CONNECT_URL", running.url)
        yield running


def ottla(*words: str) -> int:
    return main(["connect", *words])


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


# -- list, status, config


def test_connectors_are_listed_with_the_states_of_their_tasks(
    fake: FakeConnect, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.put("b", "a", "c")
    fake.failed_tasks["b"] = TRACE
    fake.states["c"] = "STOPPED"
    assert ottla("list") == 0
    assert capsys.readouterr().out.splitlines() == [
        "name  type    state    tasks      class",
        "a     source  RUNNING  1 running  FileStreamSource",
        "b     source  RUNNING  1 failed   FileStreamSource",
        "c     source  STOPPED  -          FileStreamSource",
    ]
    assert ottla("list", "--json", "[ab]") == 0
    assert [row["name"] for row in rows(capsys.readouterr().out)] == ["a", "b"]
    assert ottla("list", "-q", "c", "a") == 0
    assert capsys.readouterr().out == "c\na\n"


@pytest.mark.parametrize("word", ["list", "status"])
def test_failures_are_an_exit_code_for_those_who_ask(fake: FakeConnect, word: str) -> None:
    fake.put("a", "b")
    assert ottla(word, "--fail-on", "failed") == ottla(word, "--fail-on", "not-running") == 0
    fake.states["b"] = "PAUSED"
    assert ottla(word, "--fail-on", "failed") == 0
    assert ottla(word, "--fail-on", "not-running") == 3
    fake.failed_tasks["a"] = TRACE
    assert ottla(word, "--fail-on", "failed") == 3
    assert ottla(word, "b", "--fail-on", "failed") == 0
    assert ottla(word) == 0


def test_a_status_names_the_cause_of_a_failure(fake: FakeConnect, capsys: pytest.CaptureFixture[str]) -> None:
    fake.put("a")
    fake.failed_tasks["a"] = TRACE
    assert ottla("status", "a") == 0
    table = capsys.readouterr().out
    assert "FAILED" in table and "java.io.IOException: full" in table and "a.b(C.java" not in table
    assert ottla("status", "--trace") == 0
    assert "at a.b(C.java:1)" in capsys.readouterr().out
    assert ottla("status", "--json") == 0
    connector, task = rows(capsys.readouterr().out)
    assert connector["task"] is None and task["task"] == 0 and task["trace"] == TRACE


def test_a_name_that_is_not_there_is_told_with_a_similar_one(
    fake: FakeConnect, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.put("orders")
    for words in (("status", "order"), ("list", "order"), ("config", "order"), ("pause", "order")):
        assert ottla(*words) == 1
        told = capsys.readouterr().err
        line = f"ottla connect {words[0]}: there is no connector order; did you mean orders?\n"
        assert told.endswith(line)


def test_a_configuration_is_shown_as_a_file_for_apply(
    fake: FakeConnect, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    fake.put("a")
    assert ottla("config", "a") == 0
    shown = capsys.readouterr().out
    assert json.loads(shown) == {"name": "a", "config": LINES}
    (tmp_path / "a.json").write_text(shown)
    assert ottla("apply", str(tmp_path / "a.json")) == 0
    assert fake.writes() == []


def test_an_address_without_a_worker_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("list", "--url", "http://127.0.0.1:1") == 1
    told = capsys.readouterr().err
    assert told.startswith("ottla connect list: Connect does not answer at http://127.0.0.1:1")
    assert told.count("\n") == 1
    assert ottla("list", "--url", "127.0.0.1:8083") == 1
    assert "must begin with http://" in capsys.readouterr().err


def test_workers_are_tried_in_turn_and_passwords_are_not_shown(
    fake: FakeConnect, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.put("a")
    assert ottla("list", "-q", "--url", f"http://u:secret@127.0.0.1:1,{fake.url}") == 0
    assert capsys.readouterr().out == "a\n"
    assert ottla("list", "--url", "http://u:secret@127.0.0.1:1") == 1
    assert "secret" not in capsys.readouterr().err


def test_a_server_that_is_no_connect_worker_is_told(
    fake: FakeConnect, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.before = [(200, ["a", "list"])]
    assert ottla("list") == 1
    assert "is not one of a Connect worker" in capsys.readouterr().err


# -- apply


def write(directory: Path, name: str, content: object) -> str:
    path = directory / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def test_files_of_every_form_are_applied(fake: FakeConnect, tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    write(tmp_path, "a.json", {"name": "a", "config": LINES, "initial_state": "PAUSED"})
    write(tmp_path, "b.properties", "name=b\n" + "".join(f"{key}={text}\n" for key, text in COPY.items()))
    write(
        tmp_path,
        "c.yaml",
        "name: c\nconfig:\n  connector.class: FileStreamSource\n  topic: t\n  tasks.max: 2\n",
    )
    write(tmp_path, "d.json", [{"name": "d", **LINES}, {"name": "e", "config": {**COPY, "flag": True}}])
    write(tmp_path, "notes.txt", "no connector")
    assert ottla("apply", str(tmp_path)) == 0
    assert fake.connectors["a"] == {**LINES, "name": "a"}
    assert fake.connectors["b"] == {**COPY, "name": "b"}
    assert fake.connectors["c"]["tasks.max"] == "2"
    assert fake.connectors["e"]["flag"] == "true"
    created = next(body for method, path, body in fake.asked if path == "/connectors" and method == "POST")
    assert created["initial_state"] == "PAUSED"


def test_only_the_difference_is_carried_out(
    fake: FakeConnect, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.put("same", "other", "stray")
    same = write(tmp_path, "same.json", {"name": "same", "config": LINES})
    other = write(tmp_path, "other.json", {"name": "other", "config": {**LINES, "topic": "new", "x": "1"}})
    fresh = write(tmp_path, "fresh.json", {"name": "fresh", "config": COPY})
    assert ottla("apply", same, other, fresh, "--fail-on", "change") == 3
    shown = capsys.readouterr().out
    assert "  - topic=lines\n  + topic=new\n  + x=1\n" in shown
    assert "connector same: left as it is\n" in shown and "stray" not in shown
    assert fake.writes() == [("PUT", "/connectors/other/config"), ("POST", "/connectors")]
    assert ottla("apply", same, other, fresh, "--fail-on", "change") == 0  # all is so already
    assert len(fake.writes()) == 2
    assert "stray" in fake.connectors


def test_a_dry_run_shows_and_validates_and_changes_nothing(
    fake: FakeConnect, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.put("old")
    good = write(tmp_path, "good.json", {"name": "good", "config": LINES})
    assert ottla("apply", good, "--prune", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "connector good: created (not done: --dry-run)" in shown
    assert "connector old: deleted (not done: --dry-run)" in shown
    bad = write(tmp_path, "bad.json", {"name": "bad", "config": {"connector.class": SOURCE}})
    assert ottla("apply", bad, "--dry-run") == 1
    assert fake.writes() == []


def test_a_setting_that_is_not_valid_is_told_and_nothing_is_changed(
    fake: FakeConnect, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = write(tmp_path, "good.json", {"name": "good", "config": LINES})
    bad = write(
        tmp_path, "bad.json", {"name": "bad", "config": {"connector.class": SOURCE, "tasks.max": "x"}}
    )
    assert ottla("apply", good, bad) == 1
    told = capsys.readouterr()
    assert "bad.json: connector bad: tasks.max: Invalid value x" in told.err
    assert 'bad.json: connector bad: topic: Missing required configuration "topic"' in told.err
    assert "nothing was changed" in told.err and fake.writes() == []
    missing = write(tmp_path, "missing.json", {"name": "m", "config": {"connector.class": "org.example.No"}})
    assert ottla("apply", missing) == 1
    assert "connector m: connector.class: Failed to find any class" in capsys.readouterr().err


def test_pruning_deletes_the_others_after_a_yes(
    fake: FakeConnect, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.put("kept", "stray", "old")
    kept = write(tmp_path, "kept.json", {"name": "kept", "config": LINES})
    assert ottla("apply", kept, "--prune") == 1
    assert "delete connectors old, stray" in capsys.readouterr().err
    assert set(fake.connectors) == {"kept", "stray", "old"}
    assert ottla("apply", kept, "--prune", "--yes", "--json") == 0
    assert [(row["name"], row["action"], row["done"]) for row in rows(capsys.readouterr().out)] == [
        ("kept", "leave", False),
        ("old", "delete", True),
        ("stray", "delete", True),
    ]
    assert set(fake.connectors) == {"kept"}


def test_secrets_are_not_shown_but_the_names_of_secrets_are(
    fake: FakeConnect, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {**LINES, "db.password": "p4ss", "api.token": "${file:/run/secrets:token}"}
    file = write(tmp_path, "a.json", {"name": "a", "config": config})
    for more in (("--dry-run",), ("--dry-run", "--json"), ()):
        assert ottla("apply", file, *more) == 0
        shown = capsys.readouterr().out
        assert "p4ss" not in shown and "[hidden]" in shown and "${file:/run/secrets:token}" in shown
    assert fake.connectors["a"]["db.password"] == "p4ss"


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.json", "{", "a.json:1: it is not JSON"),
        ("a.json", "[1]", "a connector is an object"),
        ("a.json", '{"name": "a", "config": {"topic": "t"}}', "connector a has no connector.class"),
        ("a.json", '{"config": {"connector.class": "X"}}', "has no name"),
        (
            "a.json",
            '{"name": "a", "config": {"connector.class": "X", "name": "b"}}',
            "its configuration says b",
        ),
        ("a.json", '{"name": "a", "config": {"connector.class": {}}}', "connector.class is not a text"),
        (
            "a.json",
            '{"name": "a", "config": {"connector.class": "X"}, "initial_state": "ON"}',
            "initial_state",
        ),
        ("a.json", '{"name": "a", "confg": {}, "config": {}}', "confg is no part of a connector"),
        ("a.json", "[" * 100_000, "it is not JSON"),
        ("a.json", "\udcff", "it is not a text in UTF-8"),
        ("a.txt", "", "the name of a file of connectors ends with"),
        ("a.properties", "name=\\u00", "a.properties:1"),
        ("a.yaml", "{", "it is not YAML"),
        ("a.yaml", "a: !!python/object/apply:os.system [ls]", "it is not YAML"),
    ],
)
def test_a_file_that_is_no_connector_is_one_line(
    fake: FakeConnect,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: str,
    problem: str,
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode(errors="surrogateescape"))
    assert ottla("apply", str(path)) == 1
    told = capsys.readouterr().err
    assert problem in told and told.count("\n") == 1 and str(path) in told
    assert fake.asked == []


def test_a_connector_in_two_files_is_refused(
    fake: FakeConnect, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = (write(tmp_path, name, {"name": "a", "config": LINES}) for name in ("1.json", "2.json"))
    assert ottla("apply", one, two) == 1
    assert "connector a is in" in capsys.readouterr().err
    assert ottla("apply", one, one) == 0


def test_a_failure_of_one_connector_does_not_end_the_others(
    fake: FakeConnect, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [write(tmp_path, f"{name}.json", {"name": name, "config": LINES}) for name in "abc"]

    def instead(method: str, path: str, body: Any, query: object) -> tuple[int, Any] | None:
        if method == "POST" and body["name"] == "b":
            return 500, {"error_code": 500, "message": "Request timed out"}
        return None

    fake.instead = instead
    assert ottla("apply", *files) == 1
    assert "connector b was not created: Request timed out" in capsys.readouterr().err
    assert set(fake.connectors) == {"a", "c"}


def test_waiting_ends_when_all_run_and_fails_when_one_has_failed(
    fake: FakeConnect, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.cli.connect.apply.POLL_SECONDS", 0.005)
    file = write(tmp_path, "a.json", {"name": "a", "config": LINES})
    fake.put("a")
    fake.states["a"] = "UNASSIGNED"
    starts = threading.Timer(0.05, lambda: fake.states.update(a="RUNNING"))
    starts.start()
    assert ottla("apply", file, "--wait", "30") == 0
    starts.join()
    fake.failed_tasks["a"] = TRACE
    assert ottla("apply", file, "--wait", "30") == 1
    assert "connector a has failed" in capsys.readouterr().err
    fake.failed_tasks.clear()
    fake.states["a"] = "UNASSIGNED"
    assert ottla("apply", file, "--wait", "0.02") == 1
    assert "did not run within 0.02 seconds" in capsys.readouterr().err


def test_waiting_is_for_as_many_tasks_as_the_connector_is_to_have(
    fake: FakeConnect, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path, "a.json", {"name": "a", "config": LINES})
    fake.put("a")

    def instead(method: str, path: str, body: Any, query: object) -> tuple[int, Any] | None:
        if (method, path) != ("GET", "/connectors"):
            return None
        info = fake.info("a")
        info["tasks"].append({"connector": "a", "task": 1})
        return 200, {"a": {"info": info, "status": fake.status("a")}}

    fake.instead = instead
    assert ottla("apply", file, "--wait", "0.02") == 1
    assert "connector a did not run within 0.02 seconds" in capsys.readouterr().err


def test_a_second_apply_of_any_files_changes_nothing(fake: FakeConnect, tmp_path: Path) -> None:
    """Whatever is there before, and whatever the files say."""
    drawn = random.Random(random.randrange(2**32))
    for round_number in range(20):
        fake.connectors.clear()
        fake.put(*drawn.sample("abcdef", drawn.randrange(6)))
        file = write(
            tmp_path,
            f"{round_number}.json",
            [
                {
                    "name": name,
                    "config": {**LINES, "topic": drawn.choice("tu"), f"k{drawn.randrange(3)}": "ü="},
                }
                for name in drawn.sample("abcdef", drawn.randrange(1, 6))
            ],
        )
        assert ottla("apply", file, "--prune", "--yes", "-q") == 0
        wanted = {
            each["name"]: {**each["config"], "name": each["name"]}
            for each in json.loads(Path(file).read_text())
        }
        assert fake.connectors == wanted
        before = len(fake.writes())
        assert ottla("apply", file, "--prune", "--yes", "-q") == 0
        assert len(fake.writes()) == before


# -- changes, offsets, plugins, logs


def test_states_are_changed_of_several_connectors(
    fake: FakeConnect, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.put("a", "b")
    for word, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPED")):
        assert ottla(word, "a", "nope", "b") == 1
        told = capsys.readouterr()
        assert fake.states == {"a": state, "b": state}
        assert len(told.out.splitlines()) == 2 and "there is no connector nope" in told.err
    assert ottla("delete", "a") == 1  # no terminal to ask on
    assert ottla("delete", "a", "--yes", "--json") == 0
    assert set(fake.connectors) == {"b"}


def test_a_restart_is_of_the_parts_that_the_options_name(fake: FakeConnect) -> None:
    fake.put("a")
    asked = []

    def instead(method: str, path: str, body: object, query: object) -> tuple[int, Any] | None:
        asked.append((path, query))
        return (204, None) if path.endswith("/tasks/3/restart") else None

    fake.instead = instead
    assert ottla("restart", "a") == 0
    assert ottla("restart", "a", "--tasks", "--only-failed") == 0
    assert ottla("restart", "a", "--task", "3") == 0
    assert asked == [
        ("/connectors/a/restart", {"includeTasks": ["false"], "onlyFailed": ["false"]}),
        ("/connectors/a/restart", {"includeTasks": ["true"], "onlyFailed": ["true"]}),
        ("/connectors/a/tasks/3/restart", {}),
    ]
    assert ottla("restart", "a", "--task", "3", "--tasks") == 2


def test_offsets_are_shown_changed_and_reset(
    fake: FakeConnect, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fake.put("a")
    fake.offsets["a"] = [{"partition": {"filename": "/tmp/in"}, "offset": {"position": 30}}]
    assert ottla("offsets", "a") == 0
    assert capsys.readouterr().out.splitlines()[1] == "filename=/tmp/in  position=30"
    assert ottla("offsets", "a", "--json") == 0
    lines = capsys.readouterr().out
    file = write(tmp_path, "o.jsonl", lines.replace("30", "7"))
    assert ottla("offsets", "a", "--alter", file) == 1
    assert "must be in the STOPPED state" in capsys.readouterr().err
    fake.states["a"] = "STOPPED"
    assert ottla("offsets", "a", "--alter", file) == 0
    assert fake.offsets["a"] == [{"partition": {"filename": "/tmp/in"}, "offset": {"position": 7}}]
    whole = write(tmp_path, "o.json", {"offsets": [{"partition": {"filename": "b"}, "offset": None}]})
    assert ottla("offsets", "a", "--alter", whole) == 0
    assert fake.offsets["a"] == [{"partition": {"filename": "b"}, "offset": None}]
    assert ottla("offsets", "a", "--alter", write(tmp_path, "x.json", '{"x": 1}')) == 1
    assert ottla("offsets", "a", "--reset") == 1
    assert ottla("offsets", "a", "--reset", "--yes") == 0
    assert fake.offsets["a"] == []


def test_plugins_are_listed(fake: FakeConnect, capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("plugins") == 0
    assert capsys.readouterr().out.splitlines()[1].split() == [SINK, "sink", "4.3.1"]
    assert ottla("plugins", "-q") == 0
    assert capsys.readouterr().out.splitlines() == [SINK, SOURCE]


def test_logs_are_followed_until_ctrl_c(
    fake: FakeConnect, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.put("a")
    fake.logs["a"] = ["one", "two\x1b[2J"]
    assert ottla("logs", "a") == 0
    assert capsys.readouterr().out == "one\ntwo\\x1b[2J\n"
    assert ottla("logs", "a", "--json") == 0
    assert rows(capsys.readouterr().out)[0] == {"name": "a", "line": "one"}
    pauses = 0

    def pause(seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        if pauses == 3:
            raise KeyboardInterrupt
        fake.logs["a"].append(f"later {pauses}")

    monkeypatch.setattr("ottla.cli.connect.logs.time.sleep", pause)
    assert ottla("logs", "a", "--follow") == 130
    assert capsys.readouterr().out.splitlines()[2:] == ["later 1", "later 2"]


def test_a_worker_without_logs_is_told(fake: FakeConnect, capsys: pytest.CaptureFixture[str]) -> None:
    fake.put("a")
    fake.before = [(404, {"error_code": 404, "message": "HTTP 404 Not Found"})]
    assert ottla("logs", "a") == 1
    assert "gives no logs by HTTP" in capsys.readouterr().err


# -- the word itself


def test_a_word_that_is_no_command_is_told_with_a_similar_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert ottla("lst") == 2
    assert "there is no command 'lst'; did you mean list?" in capsys.readouterr().err
    assert ottla("--help") == 0
    shown = capsys.readouterr().out
    assert "apply" in shown and "standalone" in shown


def test_a_rebalance_is_waited_for(fake: FakeConnect) -> None:
    fake.put("a")
    fake.before = [
        (409, {"error_code": 409, "message": "Cannot complete request (e.g. worker rebalance)"})
    ] * 2
    assert ottla("pause", "a") == 0
    assert fake.states["a"] == "PAUSED"
