"""Runs in hosts: failures and restarts, hosts that die or don't stop, secrets and offsets of starts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.core.decisions import Decided
from ottla.connect.core.errors import Refused
from ottla.connect.offsets.connector_offsets import ConnectorOffset
from ottla.connect.worker import reconciling
from ottla.connect.worker.signing import new_key, signature_headers
from ottla.replicated.errors import TooLarge
from support.connect.memory_worker import Client, memory_worker
from support.connect.workers import marks

FAST = {"ottla.task.restart.backoff.ms": "10", "ottla.task.restart.max": "2"}
SOURCE = {"connector.class": "FileStreamSource", "topic": "t", "file": "/x"}


def run(story: Callable[[Client], Awaitable[None]], **given: str) -> None:
    async def told() -> None:
        async with memory_worker({name.replace("__", "."): value for name, value in given.items()}) as client:
            await story(client)

    asyncio.run(told())


async def status(client: Client, name: str = "c") -> Any:
    code, body = await client.ask("GET", f"/connectors/{name}/status")
    return body if code == 200 else None


async def until(look: Callable[[], Awaitable[Any]], fits: Callable[[Any], bool]) -> Any:
    for _ in range(1_000):
        seen = await look()
        if seen is not None and fits(seen):
            return seen
        await asyncio.sleep(0.01)
    raise AssertionError(f"never: {seen}")


async def put(client: Client, name: str = "c", **config: str) -> None:
    whole = {**SOURCE, **{key.replace("__", "."): value for key, value in config.items()}}
    code, body = await client.ask("PUT", f"/connectors/{name}/config", whole)
    assert code in (200, 201), body


def is_running(seen: Any, tasks: int = 1) -> bool:
    return [each["state"] for each in seen["tasks"]] == ["RUNNING"] * tasks


def test_a_task_that_fails_is_started_again_and_then_failed_with_its_trace() -> None:
    async def story(client: Client) -> None:
        await put(client, test__behaviour="fail")
        seen = await until(
            lambda: status(client), lambda found: found["tasks"] and found["tasks"][0]["state"] == "FAILED"
        )
        assert "lines-0@17" in seen["tasks"][0]["trace"]
        assert seen["connector"]["state"] == "RUNNING"
        await put(client)
        await until(lambda: status(client), is_running)

    run(story, ottla__task__restart__max="2", ottla__task__restart__backoff__ms="10")


def test_a_failed_task_stays_so_where_restarts_are_off_until_a_user_restarts_it() -> None:
    async def story(client: Client) -> None:
        await put(client, test__behaviour="fail")
        failed = lambda found: found["tasks"] and found["tasks"][0]["state"] == "FAILED"  # noqa: E731
        await until(lambda: status(client), failed)
        assert (await client.ask("POST", "/connectors/c/tasks/0/restart"))[0] == 204
        code, plan = await client.ask("POST", "/connectors/c/restart?onlyFailed=true&includeTasks=true")
        assert code == 202 and plan["connector"]["state"] == "RUNNING"
        await until(lambda: status(client), failed)

    run(story, ottla__task__restart__max="0")


def test_a_host_that_dies_is_started_again_and_gives_way_to_hosts_of_their_own() -> None:
    async def story(client: Client) -> None:
        await put(client, "good")
        await until(lambda: status(client, "good"), is_running)
        await put(client, "bad", test__behaviour="die")
        seen = await until(
            lambda: status(client, "bad"),
            lambda found: found["tasks"] and found["tasks"][0]["state"] == "FAILED",
        )
        assert "exit code 9" in seen["tasks"][0]["trace"]
        await until(lambda: status(client, "good"), is_running)
        assert client.worker.parts.supervisor.is_alone("bad")

    run(story, ottla__task__restart__max="5", ottla__task__restart__backoff__ms="20")


def test_a_task_that_does_not_stop_is_killed_and_the_others_go_on() -> None:
    async def story(client: Client) -> None:
        await put(client, "good")
        await put(client, "stuck", test__behaviour="slow")
        for name in ("good", "stuck"):
            await until(lambda name=name: status(client, name), is_running)  # type: ignore[misc]
        assert (await client.ask("DELETE", "/connectors/stuck"))[0] == 204
        supervisor = client.worker.parts.supervisor

        async def connectors() -> set[str]:
            return {id.connector for id in supervisor.phases}

        await until(connectors, lambda found: found == {"good"})
        await until(lambda: status(client, "good"), is_running)

    run(story, task__shutdown__graceful__timeout__ms="200", ottla__task__restart__backoff__ms="10")


def test_no_task_is_planned_of_new_settings_and_the_partitions_of_the_old_ones() -> None:
    async def story(client: Client) -> None:
        await put(client)
        await until(lambda: status(client), is_running)
        reconciler = client.worker.parts.reconciler
        told, late = reconciler.partitions, []
        reconciler.partitions = lambda *given: late.append(given)  # type: ignore[method-assign,assignment]
        await put(client, file="/y")
        await until(lambda: all_states(client), lambda found: found == ["RUNNING", "RESTARTING"] and late)
        (task,) = (await client.ask("GET", "/connectors/c/tasks"))[1]
        assert task["config"]["file"] == "/x"
        told(*late[0])
        await until(lambda: status(client), is_running)
        (task,) = (await client.ask("GET", "/connectors/c/tasks"))[1]
        assert task["config"]["ottla.partitions"] == '[{"filename":"/y"}]'

    run(story)


async def all_states(client: Client) -> list[str]:
    seen = await status(client)
    return [seen["connector"]["state"], *(each["state"] for each in seen["tasks"])]


def test_a_changed_connector_is_not_running_before_its_new_runs_are(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"

    async def story(client: Client) -> None:
        await put(client, tasks__max="2", test__partitions="2", test__marks=str(before))
        await until(lambda: status(client), lambda found: is_running(found, 2))
        await put(client, tasks__max="3", test__partitions="3", test__marks=str(after), file="/y")
        await until(lambda: all_states(client), lambda found: found == ["RUNNING"] * 4)
        assert [each.word for each in marks(before)].count("end") == 3
        assert [each.word for each in marks(after)].count("start") == 4

    run(story)


def test_a_change_takes_running_and_failed_away_at_once() -> None:
    async def story(client: Client) -> None:
        await put(client)
        await until(lambda: status(client), is_running)
        await put(client, test__behaviour="fail")
        assert await all_states(client) == ["RESTARTING", "RESTARTING"]
        await until(lambda: all_states(client), lambda found: found == ["RUNNING", "FAILED"])
        await put(client, file="/y")
        assert await all_states(client) == ["RESTARTING", "RESTARTING"]
        assert (await client.ask("GET", "/connectors/c/tasks/0/status"))[1]["state"] == "RESTARTING"
        await until(lambda: all_states(client), lambda found: found == ["RUNNING", "RUNNING"])

    run(story, ottla__task__restart__max="0")


def test_tasks_that_go_on_beside_a_connector_that_cannot_start_are_told_as_they_are(tmp_path: Path) -> None:
    async def story(client: Client) -> None:
        await put(client)
        await until(lambda: status(client), is_running)
        await put(client, file=f"${{file:{tmp_path}/none:file}}")
        await until(lambda: all_states(client), lambda found: found == ["FAILED", "RUNNING"])

    run(story, ottla__task__restart__max="0")


def test_a_changed_connector_that_is_paused_is_paused() -> None:
    async def story(client: Client) -> None:
        await put(client)
        await until(lambda: status(client), is_running)
        await client.ask("PUT", "/connectors/c/pause")
        await put(client, file="/y")
        await until(lambda: all_states(client), lambda found: found == ["PAUSED", "PAUSED"])
        await client.ask("PUT", "/connectors/c/resume")
        await until(lambda: all_states(client), lambda found: found == ["RUNNING", "RUNNING"])
        (task,) = (await client.ask("GET", "/connectors/c/tasks"))[1]
        assert task["config"]["file"] == "/y"

    run(story)


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (Refused(400, "these are bad tasks"), "these are bad tasks"),
        (TooLarge(), "larger than a record may be"),
    ],
)
def test_a_connector_whose_tasks_the_leader_refuses_is_failed_until_it_takes_them(
    refusal: Exception, told: str
) -> None:
    async def story(client: Client) -> None:
        parts, asked = client.worker.parts, []

        async def refuse(connector: str, configs: Sequence[Any]) -> None:
            asked.append(connector)
            raise refusal

        parts.reconciler.connect(parts.supervisor, refuse, client.worker.assign)
        await put(client)
        seen = await until(lambda: status(client), lambda found: found["connector"]["state"] == "FAILED")
        assert told in seen["connector"]["trace"] and seen["tasks"] == []
        assert asked == ["c"]  # it is for good
        parts.reconciler.connect(parts.supervisor, client.worker.set_tasks, client.worker.assign)
        assert (await client.ask("POST", "/connectors/c/restart?onlyFailed=true"))[0] == 202
        seen = await until(lambda: status(client), is_running)
        assert seen["connector"]["state"] == "RUNNING" and "trace" not in seen["connector"]

    run(story)


def test_a_connector_whose_tasks_cannot_be_given_to_a_leader_is_failed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reconciling, "RETRY_SECONDS", 0.002)

    async def story(client: Client) -> None:
        parts, answers = client.worker.parts, asyncio.Event()

        async def raising(connector: str, configs: Sequence[Any]) -> None:
            if not answers.is_set():
                raise ValueError("the leader has a bug")
            await client.worker.set_tasks(connector, configs)

        parts.reconciler.connect(parts.supervisor, raising, client.worker.assign)
        await put(client)
        seen = await until(lambda: status(client), lambda found: found["connector"]["state"] == "FAILED")
        assert "ValueError: the leader has a bug" in seen["connector"]["trace"] and seen["tasks"] == []
        answers.set()
        seen = await until(lambda: status(client), is_running)
        assert seen["connector"]["state"] == "RUNNING"

    run(story)


def test_source_partitions_are_spread_and_their_offsets_read_once_for_all_tasks() -> None:
    async def story(client: Client) -> None:
        kept = client.worker.offsets.source
        kept.of["c"] = [ConnectorOffset({"filename": "/x-1"}, {"position": 7})]  # type: ignore[attr-defined]
        await put(client, tasks__max="3", test__partitions="5")
        await until(lambda: status(client), lambda found: is_running(found, 3))
        _, tasks = await client.ask("GET", "/connectors/c/tasks")
        spread = [json.loads(each["config"]["ottla.partitions"]) for each in tasks]
        assert sorted(len(each) for each in spread) == [1, 2, 2]
        assert kept.reads == 1  # type: ignore[attr-defined]

    run(story)


def test_secrets_are_in_no_answer_and_in_the_start_alone(tmp_path: Path) -> None:
    secret = tmp_path / "s.properties"
    secret.write_text(f"pw=hush\nmarks={tmp_path / 'marks'}\n", encoding="utf-8")

    async def story(client: Client) -> None:
        reference = f"${{file:{secret}:marks}}"
        await put(client, test__marks=reference, password=f"${{file:{secret}:pw}}")
        await until(lambda: status(client), is_running)
        assert (tmp_path / "marks").exists()
        for path in ("", "/config", "/tasks", "/status", "/logs"):
            _, body = await client.ask("GET", f"/connectors/c{path}")
            assert "hush" not in json.dumps(body)
        assert "hush" not in str(client.worker.configs.image.config("c"))
        await put(client, "d", password=f"${{file:{tmp_path}/none:pw}}")
        seen = await until(lambda: status(client, "d"), lambda found: found["connector"]["state"] == "FAILED")
        assert "ConfigError: password=" in seen["connector"]["trace"]

    run(story, ottla__task__restart__max="0")


def test_offsets_are_changed_when_the_connector_is_stopped_and_that_counts_a_generation() -> None:
    async def story(client: Client) -> None:
        await put(client)
        await until(lambda: status(client), is_running)
        body = {"offsets": [{"partition": {"filename": "/x"}, "offset": {"position": 1}}]}
        assert (await client.ask("PATCH", "/connectors/c/offsets", body))[0] == 400
        await client.ask("PUT", "/connectors/c/stop")
        assert (await client.ask("PATCH", "/connectors/c/offsets", body))[0] == 200
        assert client.worker.configs.image.generation("c") == 1
        assert (await client.ask("GET", "/connectors/c/offsets"))[1] == body

    run(story)


def test_exactly_once_sources_are_fenced_before_their_tasks_start() -> None:
    async def story(client: Client) -> None:
        await put(client)
        await until(lambda: status(client), is_running)
        assert client.worker.fences == ["c"]
        assert {connector for connector, _ in client.worker.taken_over} == {"c"}

    run(story, exactly__once__source__support="enabled")


def test_the_log_of_a_connector_is_told_from_a_place_on() -> None:
    async def story(client: Client) -> None:
        await put(client)
        await until(lambda: status(client), is_running)

        async def logs() -> Any:
            return (await client.ask("GET", "/connectors/c/logs?lines=5"))[1]

        found = await until(logs, lambda seen: len(seen["lines"]) >= 2)
        code, later = await client.ask("GET", f"/connectors/c/logs?after={found['next']}")
        assert (code, later["lines"]) == (200, [])

    run(story)


@pytest.mark.parametrize("path", ["/connectors/a%2Fb", "/connectors/%C3%BC", "/connectors/a%20b"])
def test_names_of_connectors_may_have_any_character_but_control_ones(path: str) -> None:
    async def story(client: Client) -> None:
        code, body = await client.ask("PUT", f"{path}/config", SOURCE)
        assert code == 201, body
        assert (await client.ask("GET", path))[0] == 200
        assert (await client.ask("DELETE", path))[0] == 204

    run(story)


def test_the_type_of_a_body_that_is_not_there_is_not_looked_at() -> None:
    form = {"content-type": "application/x-www-form-urlencoded"}

    async def story(client: Client) -> None:
        await put(client)
        paused = await client.http.put("/connectors/c/pause", content=b"", headers=form)
        assert paused.status_code == 202
        refused = await client.http.put("/connectors/c/pause", content=b"a=b", headers=form)
        assert refused.status_code == 415

    run(story)


def test_tasks_of_another_worker_are_taken_with_its_signature_alone() -> None:
    async def story(client: Client) -> None:
        await put(client)
        await until(lambda: status(client), is_running)
        body = json.dumps([{"name": "c", "n": "0"}, {"name": "c", "n": "1"}]).encode()
        url, key = "/connectors/c/tasks", new_key()
        assert (await client.http.post(url, content=body)).status_code == 400
        signed = {"content-type": "application/json", **signature_headers(key, body)}
        assert (await client.http.post(url, content=body, headers=signed)).status_code == 503
        await client.worker.configs.write(lambda: Decided([key], None))
        forged = {**signed, "x-connect-authorization": "AAAA"}
        assert (await client.http.post(url, content=body, headers=forged)).status_code == 403
        assert (await client.http.post(url, content=body, headers=signed)).status_code == 200
        assert len(client.worker.configs.image.task_configs("c")) == 2

    run(story)


def test_a_worker_out_of_its_group_gives_up_what_it_runs_and_begins_nothing() -> None:
    async def story(client: Client) -> None:
        supervisor = client.worker.parts.supervisor
        left = [60_000.0]
        supervisor.membership_ms = lambda: left[0]
        leases = asyncio.create_task(supervisor.give_leases(lambda: left[0]))
        await put(client)
        await until(lambda: status(client), is_running)
        (host,) = client.worker.parts.hosts.running
        rejoined = client.worker.parts.reconciler
        rejoined.connect(supervisor, client.worker.set_tasks, lambda: None)
        left[0] = 0.0
        await asyncio.wait_for(host.process.wait(), 20)
        assert not supervisor.phases and not client.worker.parts.reconciler.running
        leases.cancel()

    run(story)
