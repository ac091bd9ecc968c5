"""Records the answers of Java's Connect to http_script.py: `python -m support.connect.record_http JARS FILE`.

JARS is a directory with the jars of Kafka Connect's distributed worker (connect-runtime and what it needs)
and, below `plugins/`, those of connect-file. The worker runs on a broker of ottla's. Documentation of
settings is left out of FILE: those sentences are Kafka's.
"""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ottla.pipeline.spark.java_runtime import find_java
from support.connect.http_script import Call, script
from support.servers.cluster import free_port
from support.servers.ottla_broker import OttlaBroker

PLACE = "DIRECTORY"
WORKER = "WORKER"
STRING = "org.apache.kafka.connect.storage.StringConverter"
KEPT_HEADERS = ("location", "content-type", "allow")
PATIENCE_S = 120.0


def main() -> None:
    """Record all calls."""
    jars, file = map(Path, sys.argv[1:3])
    base = Path(tempfile.mkdtemp(prefix="connect-record"))
    (base / "files").mkdir()
    (base / "files" / "in.txt").write_text("a\nb\n", encoding="utf-8")
    with OttlaBroker.start(base / "broker") as broker:
        port = free_port()
        process = _start(base, jars, broker.bootstrap, port)
        try:
            _wait(port)
            found = [_recorded(call, port, base / "files") for call in script(PLACE)]
        finally:
            process.terminate()
            process.wait(30)
    file.write_text("[\n" + ",\n".join(map(json.dumps, found)) + "\n]\n", encoding="utf-8")


def _start(base: Path, jars: Path, bootstrap: str, port: int) -> subprocess.Popen[bytes]:
    properties = {
        "bootstrap.servers": bootstrap,
        "group.id": "recorded",
        "key.converter": STRING,
        "value.converter": STRING,
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.path": str(jars / "plugins"),
        "offset.flush.interval.ms": "1000",
        **{f"{each}.storage.topic": f"connect-{each}" for each in ("config", "offset", "status")},
        **{f"{each}.storage.replication.factor": "1" for each in ("config", "offset", "status")},
    }
    settings = base / "worker.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in properties.items()), encoding="utf-8")
    path = os.pathsep.join(str(each) for each in sorted(jars.glob("*.jar")))
    command = [str(find_java().executable), "-Xmx512m", "-cp", path]
    command += ["org.apache.kafka.connect.cli.ConnectDistributed", str(settings)]
    with (base / "connect.log").open("wb") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def _wait(port: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            if _ask(port, "GET", "/connectors", None, {})[0] == 200:
                return
        except OSError:
            pass
        if time.monotonic() > end:
            raise SystemExit("Java's Connect does not answer")
        time.sleep(0.3)


def _recorded(call: Call, port: int, files: Path) -> dict[str, Any]:
    raw = call.raw if call.raw is not None else None if call.body is None else json.dumps(call.body)
    body = None if raw is None else raw.replace(PLACE, str(files)).encode()
    headers = {"content-type": "application/json"} if body is not None else {}
    end = time.monotonic() + PATIENCE_S
    while True:
        status, answer, told = _ask(port, call.method, call.path, body, {**headers, **dict(call.headers)})
        is_busy = status == 409 and "momentarily" in str(answer)
        if time.monotonic() > end or not (is_busy or (call.until and not _fits(call.until, status, answer))):
            break
        time.sleep(0.2)
    text = json.dumps(_without_documentation(answer))
    text = text.replace(str(files), PLACE).replace(f"127.0.0.1:{port}", WORKER)
    kept = {name: told[name].replace(f"127.0.0.1:{port}", WORKER) for name in KEPT_HEADERS if name in told}
    return {
        "method": call.method,
        "path": call.path,
        "status": status,
        "answer": json.loads(text),
        "headers": kept,
    }


def _fits(until: tuple[str, int | None], status: int, found: Any) -> bool:
    state, tasks = until
    if state.isdigit():
        return status == int(state)
    if status != 200 or found["connector"]["state"] != state:
        return False
    states = [each["state"] for each in found["tasks"]]
    return tasks is None or (len(states) == tasks and set(states) <= {state})


def _ask(
    port: int, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
) -> tuple[int, Any, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=100)
    try:
        connection.request(method, path, body, dict(headers))
        answer = connection.getresponse()
        data = answer.read()
    finally:
        connection.close()
    told = {name.lower(): value for name, value in answer.getheaders()}
    try:
        return answer.status, json.loads(data) if data else None, told
    except ValueError:
        return answer.status, data.decode("latin-1"), told


def _without_documentation(found: Any) -> Any:
    if isinstance(found, dict):
        return {
            name: "" if name == "documentation" else _without_documentation(each)
            for name, each in found.items()
        }
    return [_without_documentation(each) for each in found] if isinstance(found, list) else found


if __name__ == "__main__":
    main()
