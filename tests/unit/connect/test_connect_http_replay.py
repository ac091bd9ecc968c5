"""The HTTP calls that were recorded against Java's Connect, replayed on a worker without a cluster."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

from ottla.connect.plugins.catalog import installed_plugins
from support.connect.file_plugins import PLUGINS
from support.connect.http_answers import differences
from support.connect.http_script import Call, script
from support.connect.memory_worker import WORKER_ID, Client, memory_worker

TRANSCRIPT = Path(__file__).parents[2] / "services" / "connect" / "http_transcript.json"
CLASS = re.compile(r"org\.apache\.kafka\.connect\.[A-Za-z.$]+[A-Za-z]")
STRING = "org.apache.kafka.connect.storage.StringConverter"


def test_a_worker_answers_the_script_as_kafka_connect_does(tmp_path: Path) -> None:
    problems = asyncio.run(_replay(tmp_path))
    assert not problems, "\n".join(problems)


async def _replay(tmp_path: Path) -> list[str]:
    recorded = json.loads(TRANSCRIPT.read_text(encoding="utf-8"))
    problems = []
    async with memory_worker({"key.converter": STRING, "value.converter": STRING}) as client:
        for call, theirs in zip(script("DIRECTORY"), recorded, strict=True):
            if not _is_known(call):
                continue
            status, ours = await _answer(client, call)
            told = json.loads(json.dumps(ours).replace(WORKER_ID, "WORKER"))
            found = [] if status == theirs["status"] else [f"{theirs['status']} is not {status} {ours}"]
            found += differences(call.said, theirs["answer"], told) if not found else []
            problems += [f"{call.method} {call.path} {call.body}: {each}" for each in found]
    return problems


def _is_known(call: Call) -> bool:
    """Whether the plugins that a call names are there: converters and transforms have rooms of their own."""
    names = {name for plugin in (*installed_plugins().plugins, *PLUGINS) for name in plugin.names}
    return all(each in names for each in CLASS.findall(f"{call.path} {json.dumps(call.body)}"))


async def _answer(client: Client, call: Call) -> tuple[int, Any]:
    raw = call.raw if call.raw is not None else None if call.body is None else json.dumps(call.body)
    headers = {"content-type": "application/json"} if raw is not None else {}
    for _ in range(600):
        answer = await client.http.request(
            call.method, call.path, content=raw, headers={**headers, **dict(call.headers)}
        )
        found = answer.json() if answer.content else None
        if call.until is None or _fits(call.until, answer.status_code, found):
            break
        await asyncio.sleep(0.02)
    return answer.status_code, found


def _fits(until: tuple[str, int | None], status: int, found: Any) -> bool:
    state, tasks = until
    if state.isdigit():
        return status == int(state)
    if status != 200 or found["connector"]["state"] != state:
        return False
    states = [each["state"] for each in found["tasks"]]
    return tasks is None or (len(states) == tasks and set(states) <= {state})
