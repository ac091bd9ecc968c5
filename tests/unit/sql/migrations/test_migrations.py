"""`ottla sql migrate` on a server's API: each file once, whatever is killed, and whoever else applies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.main import main
from ottla.client.rest_access import RestAccess
from ottla.config.errors import ConfigError, UserError
from ottla.sql.migrations.applying import Run
from ottla.sql.migrations.events import Event, History, State
from ottla.sql.migrations.files import create_file, migration_files
from ottla.sql.migrations.metadata import Metadata, Names
from ottla.sql.migrations.project import project_of
from ottla.sql.terminal.access import SQL
from ottla.sql.terminal.api import SqlApi
from support.sql.fake_server import FakeSql

STREAM = (
    "CREATE STREAM {0} (id INT KEY, n INT) WITH (kafka_topic='{0}', value_format='json', partitions=1);\n"
)


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.fixture
def fake() -> Iterator[FakeSql]:
    with FakeSql.running() as running:
        running.before = lambda path, body: (200, INFO) if path == "/info" else None
        yield running


INFO = {"KsqlServerInfo": {"version": "x", "ksqlServiceId": "shop_", "serverStatus": "RUNNING"}}


@pytest.fixture
def project(fake: FakeSql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    assert migrate("new-project", str(tmp_path / "shop"), fake.url) == 0
    monkeypatch.chdir(tmp_path / "shop")
    assert migrate("initialize-metadata") == 0
    return tmp_path / "shop" / "migrations"


def migrate(*words: str) -> int:
    return main(["sql", "migrate", *words])


def put(project: Path, version: int, text: str, name: str = "a_change") -> Path:
    path = project / f"V{version:06}__{name}.sql"
    path.write_text(text, encoding="utf-8")
    return path


def run_of(fake: FakeSql, *, after_kill: bool = False) -> Run:
    api = SqlApi(RestAccess.from_properties(SQL, fake.url, {}))
    return Run(api, Metadata(api, Names()), {}, after_kill)


def states(fake: FakeSql) -> list[tuple[str, str]]:
    """The key and state of each event."""
    return [(row["VERSION_KEY"], row["STATE"]) for row in fake.rows["MIGRATION_EVENTS"]]


def listed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    capsys.readouterr()
    assert migrate("info", "--json") == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_files_are_applied_in_their_order_and_once(
    fake: FakeSql, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert migrate("create", "Orders, and more") == 0
    assert [each.name for each in project.iterdir()] == ["V000001__Orders_and_more.sql"]
    put(project, 1, "DEFINE size = '7';\n" + STREAM.format("${topic}"), "Orders_and_more")
    put(project, 2, STREAM.format("b") + "INSERT INTO b VALUES (1, 2); -- a row; with signs\n")
    put(project, 5, STREAM.format("c"))
    before = len(fake.texts())
    assert migrate("apply", "--until", "2", "-d", "topic=a", "--dry-run") == 0
    assert "CREATE STREAM ${topic} (id INT KEY, n INT)" in capsys.readouterr().out
    assert len(fake.texts()) == before
    assert migrate("apply", "--next", "-d", "topic=a") == 0
    assert migrate("apply", "--until", "2") == 0
    assert migrate("apply", "--all") == 0
    assert migrate("apply", "--all") == 0
    assert "there is nothing to do" in capsys.readouterr().out
    assert set(fake.catalog.sources) == {"MIGRATION_EVENTS", "MIGRATION_SCHEMA_VERSIONS", "A", "B", "C"}
    assert [(row["ID"], row["N"]) for row in fake.rows["B"]] == [(1, 2)]
    assert states(fake) == [
        (key, state)
        for n in "125"
        for key, state in ((n, "RUNNING"), (n, "MIGRATED"), ("CURRENT", "MIGRATED"))
    ]
    found = listed(capsys)
    assert [(each["version"], each["state"], each["previous"]) for each in found] == [
        (1, "MIGRATED", None),
        (2, "MIGRATED", 1),
        (5, "MIGRATED", 2),
    ]
    assert migrate("info") == 0
    assert "current version: 5" in capsys.readouterr().out
    assert migrate("validate") == 0


def test_the_first_statement_that_fails_ends_the_run(
    fake: FakeSql, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(project, 1, STREAM.format("a") + "INSERT INTO nowhere VALUES (1);")
    put(project, 2, STREAM.format("b"))
    assert migrate("apply", "--all") == 1
    told = capsys.readouterr().err
    assert path.name in told and "NOWHERE" in told and "^" in told
    assert states(fake) == [("1", "RUNNING"), ("1", "ERROR"), ("CURRENT", "ERROR")]
    (first, second) = listed(capsys)
    assert (first["state"], second["state"]) == ("ERROR", "PENDING")
    assert "NOWHERE" in str(first["error"])
    path.write_text("DROP STREAM a; " + STREAM.format("a"), encoding="utf-8")
    assert migrate("apply", "--all") == 0
    assert [each["state"] for each in listed(capsys)] == ["MIGRATED", "MIGRATED"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT * FROM a EMIT CHANGES;", "a migration has no SELECT"),
        (STREAM.format("a") + "SHOW STREAMS;", "line 2, column 1"),
        ("SHOW VARIABLES;", "a migration has no SHOW"),
        ("RUN SCRIPT 'x';", "a migration has no RUN"),
        ("SET CLI wrap off;", "SET"),
        ("CREATE STREM a (n INT);", "line 1, column 8"),
        ("-- nothing\n", "no statement"),
        ("DROP STREAM 'a", "line 1"),
    ],
)
def test_nothing_runs_if_one_file_is_wrong(
    fake: FakeSql, project: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    put(project, 1, STREAM.format("a"))
    put(project, 2, text)
    assert migrate("apply", "--all") == 1
    assert told in capsys.readouterr().err
    assert states(fake) == [] and "A" not in fake.catalog.sources


def test_files_that_changed_or_went_are_told(
    fake: FakeSql, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = put(project, 1, STREAM.format("a"))
    put(project, 2, STREAM.format("b"))
    assert migrate("apply", "--next") == 0
    path.write_text(STREAM.format("other"), encoding="utf-8")
    for words in (("validate",), ("apply", "--all")):
        assert migrate(*words) == 1
        assert "has changed since" in capsys.readouterr().err
    path.unlink()
    assert migrate("validate") == 1
    assert "has no file any more" in capsys.readouterr().err
    assert "B" not in fake.catalog.sources


def test_words_that_do_not_fit_are_told(
    fake: FakeSql, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(project, 3, STREAM.format("a"))
    for words, told in (
        (("apply",), "one of --all"),
        (("apply", "--all", "--next"), "one of --all"),
        (("apply", "--version", "4"), "no file of version 4"),
        (("create", "x", "--version", "3"), "has a file already"),
        (("create", "x", "--version", "0"), "from 1 to"),
        (("create", "!"), "has letters"),
        (("info", "-c", "nowhere.properties"), "nowhere.properties"),
    ):
        assert migrate(*words) in (1, 2), words
        assert told in capsys.readouterr().err, words
    assert migrate("apply", "--version", "3") == 0
    put(project, 2, STREAM.format("late"))
    assert migrate("apply", "--all") == 0
    assert "version 2 is below the current one, 3: it is left out" in capsys.readouterr().err
    assert migrate("apply", "--version", "2") == 1
    assert "below the current one, 3" in capsys.readouterr().err
    twice = put(project, 3, "", "twice")
    assert migrate("info") == 1
    assert "version 3 has two files" in capsys.readouterr().err
    twice.unlink()
    (project / "V4__x.sql").write_text("")
    with pytest.raises(UserError, match="no name of a migration"):
        migration_files(project)


def test_metadata_are_made_twice_and_destroyed(
    fake: FakeSql, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert migrate("initialize-metadata") == 0
    assert "kafka_topic = 'shop_ksql_MIGRATION_EVENTS'" in fake.texts()[0]
    assert migrate("destroy-metadata") == 1  # there is no terminal to ask on
    assert migrate("destroy-metadata", "--yes") == 0
    assert not fake.catalog.sources
    assert migrate("info") == 1
    assert "initialize-metadata" in capsys.readouterr().err


def apply_all(run: Run, project: Path) -> None:
    for file, parts in run.checked(migration_files(project)):
        run.apply(file, parts)


@pytest.mark.parametrize("at", range(7))
def test_a_kill_between_any_two_requests_is_survived(fake: FakeSql, project: Path, at: int) -> None:
    """Of the seven requests of a version with two statements; the request itself may be done, or not."""
    again = STREAM.replace("STREAM", "STREAM IF NOT EXISTS")
    put(project, 1, again.format("a") + again.format("b"))
    run = run_of(fake)
    kill_at(run, at)
    with pytest.raises(Killed):
        apply_all(run, project)
    next_run = run_of(fake)
    state = History.of(next_run.metadata.events()).state(1)
    if state is State.RUNNING:
        with pytest.raises(UserError, match="--after-kill"):
            apply_all(next_run, project)
        next_run = run_of(fake, after_kill=True)
    if state is not State.MIGRATED:
        apply_all(next_run, project)
    assert set(fake.catalog.sources) >= {"A", "B"}
    history = History.of(next_run.metadata.events())
    assert (history.state(1), history.current) == (State.MIGRATED, 1)


def kill_at(run: Run, at: int) -> None:
    """End a run before its request of this number."""
    left = [at]

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def counting(*words: object, **named: object) -> object:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            return call(*words, **named)

        return counting

    run.api.statements = counted(run.api.statements)  # type: ignore[method-assign, assignment]
    run.api.query = counted(run.api.query)  # type: ignore[method-assign, assignment]


@pytest.mark.parametrize("after_kill", [False, True])
def test_of_two_runs_at_once_one_applies(fake: FakeSql, project: Path, after_kill: bool) -> None:
    """The second one writes its event just behind the first one's, before that looks."""
    put(project, 1, STREAM.format("a"))
    if after_kill:
        dead = run_of(fake)
        kill_at(dead, 3)
        with pytest.raises(Killed):
            apply_all(dead, project)
    first, second = run_of(fake, after_kill=after_kill), run_of(fake, after_kill=after_kill)
    (file, parts) = first.checked(migration_files(project))[0]
    asked = second.metadata.events
    second.metadata.events = lambda: seen if (seen := early.pop() if early else None) is not None else asked()  # type: ignore[method-assign]
    early = [first.metadata.events()]
    write = first.metadata.write

    def write_and_let_the_other(event: Event) -> None:
        write(event)
        if event.state is State.RUNNING:
            with pytest.raises(UserError, match="which began before"):
                second.apply(file, parts)

    first.metadata.write = write_and_let_the_other  # type: ignore[method-assign]
    first.apply(file, parts)
    assert [text for text in fake.texts() if text.startswith("CREATE STREAM a ")] == [
        STREAM.format("a").strip()
    ]
    assert [state for key, state in states(fake) if key == "1"][-1] == "MIGRATED"


def test_a_run_that_looked_too_early_does_not_apply_again(fake: FakeSql, project: Path) -> None:
    put(project, 1, STREAM.format("a"))
    late, quick = run_of(fake), run_of(fake)
    (file, parts) = late.checked(migration_files(project))[0]
    asked, early = late.metadata.events, [late.metadata.events()]
    late.metadata.events = lambda: early.pop() if early else asked()  # type: ignore[method-assign]
    quick.apply(file, parts)
    before = len(fake.texts())
    with pytest.raises(UserError, match="applied by another run meanwhile"):
        late.apply(file, parts)
    assert len(fake.texts()) == before + 1  # its RUNNING
    assert History.of(quick.metadata.events()).state(1) is State.MIGRATED


@given(
    st.lists(st.tuples(st.sampled_from(["run", "take over", "end", "fail"]), st.integers(0, 3)), max_size=40)
)
def test_a_version_never_has_two_holders(steps: list[tuple[str, int]]) -> None:
    """Runs that follow the rules: each writes, looks, and goes on only if it holds the version."""
    events: list[Event] = []
    holding: set[int] = set()

    def event(state: State, run: str | None = None, after: str | None = None) -> None:
        events.append(Event("1", 1, "x", state, "", run=run, after=after))

    for step, runner in steps:
        history = History.of(events)
        standing = history.standings.get(1)
        match step:
            case "run" if history.state(1) is State.MIGRATED:
                event(State.RUNNING, f"{runner}.{len(events)}")  # it looked before the other one began
                assert History.of(events).state(1) is State.MIGRATED
                continue
            case "run" if history.state(1) is not State.RUNNING:
                event(State.RUNNING, f"{runner}.{len(events)}")
            case "take over" if standing is not None and history.state(1) is State.RUNNING:
                holding.discard(int((standing.holder or "0").split(".")[0]))  # it is dead
                event(State.RUNNING, f"{runner}.{len(events)}", standing.holder)
                event(State.RUNNING, f"9.{len(events)}", standing.holder)  # one that came second
            case "end" | "fail" if runner in holding:
                event(State.MIGRATED if step == "end" else State.ERROR)
                holding.discard(runner)
                continue
            case _:
                continue
        found = History.of(events).standings[1]
        assert found.holder is not None
        holder = int(found.holder.split(".")[0])
        assert holder == runner
        holding.add(holder)
        assert len(holding) == 1


def test_properties_of_a_project(tmp_path: Path) -> None:
    file = tmp_path / "p.properties"
    file.write_text(
        "ksql.server.url=https://one:8088,https://two\nksql.auth.basic.username=u\nksql.auth.basic.password=p\n"
        "ssl.truststore.location=ca.pem\nssl.truststore.type=PEM\nksql.migrations.stream.name=EVENTS\n"
        "ksql.migrations.topic.replicas=3\nksql.migrations.dir.override=files\nssl.verify.host=false\n"
    )
    found = project_of(file)
    assert found.access.urls == ("https://one:8088", "https://two")
    assert found.access.authorization is not None and "ssl.ca.location" in found.access.tls
    assert (found.names.stream, found.names.replicas, found.directory) == ("EVENTS", 3, tmp_path / "files")
    for text, told in (
        ("", "ksql.server.url is missing"),
        ("ksql.server.url=ftp://x", "must begin with"),
        ("ksql.server.url=http://x\nnonsense=1", "no property of a project: nonsense"),
        ("ksql.server.url=http://x\nksql.migrations.topic.replicas=0", "from 1 to"),
        ("ksql.server.url=http://x\nksql.migrations.stream.name=a b", "letters"),
        ("ksql.server.url=http://x\nssl.keystore.location=k.jks", "PEM"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=told):
            project_of(file)


def test_a_new_version_follows_the_largest(tmp_path: Path) -> None:
    assert create_file(tmp_path, "first", None).name == "V000001__first.sql"
    assert create_file(tmp_path, "tenth", 10).name == "V000010__tenth.sql"
    assert create_file(tmp_path, "next one", None).name == "V000011__next_one.sql"
    assert [each.name for each in migration_files(tmp_path)] == ["first", "tenth", "next one"]
