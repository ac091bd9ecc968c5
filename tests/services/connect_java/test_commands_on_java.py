"""`ottla connect WORD` against Kafka Connect itself, in a Java worker."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.cli.main import main
from ottla.connect.java.connect import JavaConnect
from ottla.connect.java.settings import java_options
from services.connect_java.test_java_worker import plugin_directory
from support.clients.confluent import eventually
from support.servers.ottla_broker import OttlaBroker

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long]


@contextmanager
def java_connect(bootstrap: str, directory: Path) -> Iterator[tuple[str, str]]:
    """The address and the user of a Java worker that runs while the block does."""
    options = java_options(
        {
            "bootstrap.servers": bootstrap,
            "plugin.path": str(plugin_directory(directory)),
            "offset.flush.interval.ms": "200",
            "ottla.java.heap": "256m",
        }
    )
    assert options is not None
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def made() -> JavaConnect:
        return JavaConnect(options)

    java = asyncio.run_coroutine_threadsafe(made(), loop).result()
    try:
        yield (
            asyncio.run_coroutine_threadsafe(java._supervisor.ready(), loop).result(120),
            f"{options.user}:{options.password}",
        )
    finally:
        asyncio.run_coroutine_threadsafe(java.close(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_the_commands_work_on_kafkas_own_connect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = tmp_path / "in.txt"
    lines.write_text("one\ntwo\n")
    source = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "lines"}
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": "lines"}
    converters = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}
    wanted = tmp_path / "wanted"
    wanted.mkdir()
    (wanted / "source.json").write_text(json.dumps({"name": "source", "config": {**source, **converters}}))
    (wanted / "sink.properties").write_text(
        "name=sink\n" + "".join(f"{key}={text}\n" for key, text in {**sink, **converters}.items())
    )
    with (
        OttlaBroker.start(tmp_path / "broker") as broker,
        java_connect(broker.bootstrap, tmp_path) as (url, user),
    ):

        def ottla(*words: str) -> int:
            options = ("--url", url, "--set", f"basic.auth.user.info={user}")
            return main(["connect", *words, *options])

        def told() -> list[dict[str, object]]:
            return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

        assert main(["connect", "list", "--url", url]) == 1  # it asks for a password
        capsys.readouterr()
        assert ottla("plugins", "--json") == 0
        assert "org.apache.kafka.connect.file.FileStreamSinkConnector" in {row["class"] for row in told()}
        assert ottla("apply", str(wanted), "--dry-run", "--fail-on", "change") == 3
        assert ottla("list", "-q") == 0
        assert "source" not in capsys.readouterr().out.splitlines()
        assert ottla("apply", str(wanted), "--wait", "60") == 0
        eventually(lambda: (tmp_path / "out.txt").exists(), "the sink's file")
        eventually(lambda: (tmp_path / "out.txt").read_text() == "one\ntwo\n", "the lines in the sink's file")
        capsys.readouterr()
        assert ottla("apply", str(wanted), "--fail-on", "change", "--json") == 0
        assert {row["action"] for row in told()} == {"leave"}
        (wanted / "source.json").write_text(
            json.dumps({"name": "source", "config": {**source, "tasks.max": "x"}})
        )
        assert ottla("apply", str(wanted)) == 1
        assert "connector source: tasks.max: Invalid value x" in capsys.readouterr().err
        assert ottla("status", "--json", "--fail-on", "not-running") == 0
        assert len(told()) == 4
        assert ottla("restart", "source", "sink", "--tasks") == 0
        assert ottla("pause", "sink") == 0
        eventually(lambda: ottla("status", "sink", "--fail-on", "not-running") == 3, "a sink that pauses")
        assert ottla("resume", "sink") == 0
        assert ottla("offsets", "source", "--reset", "--yes") == 1
        assert "STOPPED" in capsys.readouterr().err
        assert ottla("stop", "source") == 0
        eventually(lambda: ottla("offsets", "source", "--reset", "--yes") == 0, "a source that has stopped")
        capsys.readouterr()
        assert ottla("offsets", "source", "--json") == 0
        assert told() == []
        assert ottla("offsets", "sink", "--json") == 0
        partition = {"kafka_topic": "lines", "kafka_partition": 0}
        assert told() == [{"partition": partition, "offset": {"kafka_offset": 2}}]
        assert ottla("logs", "sink") == 1
        assert "gives no logs by HTTP" in capsys.readouterr().err
        (wanted / "source.json").unlink()
        assert ottla("apply", str(wanted), "--prune", "--yes") == 0
        capsys.readouterr()
        assert ottla("list", "-q") == 0
        assert capsys.readouterr().out == "sink\n"
        assert ottla("delete", "sink", "--yes") == 0
