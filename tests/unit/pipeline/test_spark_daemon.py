"""Spark's Python workers are spared archives on the path, waits for acknowledgements, and garbage."""

from __future__ import annotations

import gc
import socket
from pathlib import Path

import pyspark
import pytest

from ottla.pipeline.spark.spark_daemon import _Worker, without_archives


@pytest.fixture(autouse=True)
def nothing_stays_frozen() -> None:
    gc.unfreeze()


SPARK = Path(pyspark.__file__).parent
SITE = str(SPARK.parent)
CORE = str(SPARK / "jars" / "spark-core_2.13-4.0.0.jar")
ZIP = str(SPARK / "python" / "lib" / "pyspark.zip")
PY4J = str(SPARK / "python" / "lib" / "py4j-0.10.9.9-src.zip")


def test_spark_s_archives_go_where_its_packages_are_installed() -> None:
    assert without_archives(["", CORE, ZIP, PY4J, "/user/lib.zip", SITE]) == ["", "/user/lib.zip", SITE]


def test_an_archive_that_is_the_only_one_with_its_package_stays(tmp_path: Path) -> None:
    assert without_archives([CORE, ZIP, PY4J, str(tmp_path)]) == [ZIP, PY4J, str(tmp_path)]


def test_a_worker_s_connection_sends_at_once_and_later_garbage_is_little() -> None:
    served: list[tuple[int, bool]] = []

    def serve(connection: socket.socket, authenticated: bool) -> int:
        served.append((connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), authenticated))
        return 0

    worker = _Worker(serve)
    listening = socket.create_server(("127.0.0.1", 0))
    with listening, socket.create_connection(listening.getsockname()) as connection:
        assert worker(connection, False) == 0
        frozen = gc.get_freeze_count()
        assert worker(connection, True) == 0
    gc.unfreeze()

    assert served == [(1, False), (1, True)]
    assert frozen > 0


def test_a_unix_socket_is_left_as_it_is() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert _Worker(lambda connection, authenticated: 3)(ours, True) == 3
