"""A pipeline in a process of its own, on a master that the tests' shared session is not on.

Run as a program: `python -m support.pipeline.spark_masters MASTER DIRECTORY BOOTSTRAP TOPIC` upper-cases the
records of TOPIC into TOPIC-out by a Python function, prints its observations as a line of JSON, and ends.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from ottla.pipeline.spark.errors import SparkError
from ottla.pipeline.spark.java_runtime import find_java
from ottla.pipeline.spark.session import SparkSettings, start_session
from support.clients.confluent import eventually
from support.servers.cluster import free_port

PIPELINE_TIMEOUT_S = 180
SERVER_START_TIMEOUT_S = 60


def run_pipeline(master: str, directory: Path, bootstrap: str, topic: str) -> dict[str, Any]:
    """Run the pipeline in a process of its own; its observations."""
    tests = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "support.pipeline.spark_masters", master, str(directory), bootstrap, topic],
        capture_output=True,
        text=True,
        timeout=PIPELINE_TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """The installed Spark as a Connect server without a Kafka connector; gives its address."""
    port = free_port()
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
    }
    properties = {
        "spark.master": "local[2,4]",
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(directory / "scratch"),
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.sql.artifact.isolation.enabled": "true",
    }
    command = [str(home / "bin" / "spark-submit")]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += [argument for key, value in properties.items() for argument in ("--conf", f"{key}={value}")]
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, "spark-internal"], env=environment, stdout=log, stderr=log, cwd=directory
        )
    try:
        eventually(lambda: _accepts(port, server), "the Connect server listens", SERVER_START_TIMEOUT_S)
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)


def _accepts(port: int, server: subprocess.Popen[bytes]) -> bool:
    import socket

    assert server.poll() is None, "the Connect server has ended"
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def main(master: str, directory: Path, bootstrap: str, topic: str) -> dict[str, Any]:
    from pyspark.sql import functions as F

    from ottla.client.cluster import KafkaCluster
    from ottla.pipeline.query.query import QueryRunner
    from ottla.pipeline.query.query_spec import AvailableNow, QuerySpec
    from ottla.pipeline.query.source import KafkaSource, read_stream
    from ottla.pipeline.sink.exactly_once import source_column, write_exactly_once

    settings = SparkSettings("masters", directory, master=master, shuffle_partitions=3, driver_memory="512m")
    session = start_session(settings)
    again = ""
    try:
        start_session(settings)
    except SparkError as error:
        again = str(error)
    spec = QuerySpec(
        f"{topic}-query", session.checkpoint_of("query"), [KafkaSource(bootstrap, [topic])], AvailableNow()
    )
    seen: list[int] = []
    runner = QueryRunner(session.spark, on_progress=lambda _, progress: seen.append(progress.input_rows))
    admission = runner.admit(spec)
    upper = F.udf(lambda value: value.upper(), "STRING")
    frame = read_stream(session.spark, admission.sources[0])
    values = frame.select("key", upper(F.col("value").cast("string")).alias("value"), source_column())
    # Not Spark's own sink: Connect cannot load what its tasks answer from jars that a client has added.
    writer = write_exactly_once(values, bootstrap=bootstrap, query_name=spec.name, topic=f"{topic}-out")
    query = runner.start(admission, writer)
    query.await_termination(120)
    runner.close()
    executors = 0
    if not session.is_connect:
        tracker = session.spark.sparkContext._jsc.sc().getExecutorMemoryStatus()
        executors = tracker.size() - 1
    lag = KafkaCluster(bootstrap).lag(spec.group_id, topic)
    shuffle_partitions = session.spark.conf.get("spark.sql.shuffle.partitions")
    session.close()
    return {
        "rows": sum(seen),
        "lag": lag,
        "executors": executors,
        "again": again,
        "shuffle_partitions": shuffle_partitions,
        "runtime": session.runtime,
        "remote_mode_after": "SPARK_CONNECT_MODE_ENABLED" in os.environ,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])))
