"""The script of HTTP calls that was recorded against Java's Connect, replayed on a worker of ottla's.

http_transcript.json is written by tests/support/connect/record_http.py.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

from ottla.client.cluster import KafkaCluster, Topic
from ottla.connect.plugins.catalog import installed_plugins
from support.connect.file_plugins import PLUGINS
from support.connect.http_answers import differences
from support.connect.http_script import Call, script
from support.connect.workers import Answer, ConnectWorker
from support.servers.apache_kafka import ApacheKafka
from support.servers.ottla_broker import OttlaBroker

TRANSCRIPT = Path(__file__).with_name("http_transcript.json")
PLACE = "DIRECTORY"
CLASS = re.compile(r"org\.apache\.kafka\.connect\.[A-Za-z.$]+[A-Za-z]")
STRING = "org.apache.kafka.connect.storage.StringConverter"


def test_a_worker_answers_the_script_as_kafka_connect_does(
    broker: OttlaBroker | ApacheKafka, tmp_path: Path
) -> None:
    recorded = json.loads(TRANSCRIPT.read_text(encoding="utf-8"))
    calls = script(PLACE)
    assert [(each["method"], each["path"]) for each in recorded] == [
        (call.method, call.path) for call in calls
    ]
    settings = {
        "group.id": "replay",
        "config.storage.topic": "replay-configs",
        "status.storage.topic": "replay-status",
        "offset.storage.topic": "replay-offsets",
        "key.converter": STRING,
        "value.converter": STRING,
    }
    problems = []
    KafkaCluster(broker.bootstrap, {}, "test").ensure_topics([Topic("lines", 1, 1, {})])
    with ConnectWorker.start(broker.bootstrap, tmp_path, settings) as worker:
        for call, theirs in zip(calls, recorded, strict=True):
            if not _is_known(call):
                continue
            ours = _answer(worker, call, tmp_path)
            told = _told(ours, worker.port, tmp_path)
            found = [] if ours.status == theirs["status"] else [f"{theirs['status']} is not {ours.status}"]
            found += differences(call.said, theirs["answer"], told) if not found else []
            problems += [f"{call.method} {call.path} {call.body}: {each}" for each in found]
    assert not problems, "\n".join(problems)


def _is_known(call: Call) -> bool:
    """Whether the plugins that a call names are there: converters and transforms have rooms of their own."""
    names = {name for plugin in (*installed_plugins().plugins, *PLUGINS) for name in plugin.names}
    wanted = CLASS.findall(f"{call.path} {json.dumps(call.body)}")
    return all(each in names for each in wanted)


def _answer(worker: ConnectWorker, call: Call, directory: Path) -> Answer:
    raw = call.raw if call.raw is not None else None if call.body is None else json.dumps(call.body)
    body = None if raw is None else raw.replace(PLACE, str(directory)).encode()
    end = time.monotonic() + 30
    while True:
        answer = worker.ask(call.method, call.path, raw=body, headers=dict(call.headers))
        if call.until is None or _fits(call, answer) or time.monotonic() > end:
            return answer
        time.sleep(0.05)


def _fits(call: Call, answer: Answer) -> bool:
    assert call.until is not None
    state, tasks = call.until
    if state.isdigit():
        return answer.status == int(state)
    if answer.status != 200 or answer.body["connector"]["state"] != state:
        return False
    states = [each["state"] for each in answer.body["tasks"]]
    return tasks is None or (len(states) == tasks and set(states) <= {state})


def _told(answer: Answer, port: int, directory: Path) -> Any:
    text = json.dumps(answer.body).replace(str(directory), PLACE).replace(f"127.0.0.1:{port}", "WORKER")
    return json.loads(text)
