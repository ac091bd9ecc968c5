"""The two ways to start Spark's JVM; here launcher and Java are scripts that say how they were called."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ottla.pipeline.spark import jvm
from ottla.pipeline.spark.errors import SparkError
from ottla.pipeline.spark.java_runtime import JavaRuntime
from ottla.pipeline.spark.jvm import JvmOrder, StartedJvm, direct_command, start_jvm
from ottla.pipeline.spark.jvm_home import JvmCommand, JvmHome, decided_options

ADDRESS = b"\\000\\000\\000\\007\\000\\000\\000\\006secret"
SCRIPT = """#!/bin/sh
echo {name} "$@" > {log}
test -e {fails} && exit 1
printf '{address}' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.part"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.part" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
exec cat > /dev/null
"""


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JvmOrder:
    for name in ("SPARK_CONF_DIR", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS", "OTTLA_CLASS_ARCHIVE"):
        monkeypatch.delenv(name, raising=False)
    for name, path in (("java", tmp_path / "java"), ("spark-submit", tmp_path / "spark/bin/spark-submit")):
        path.parent.mkdir(parents=True, exist_ok=True)
        text = SCRIPT.format(
            name=name,
            log=tmp_path / "called",
            fails=tmp_path / f"{name}-fails",
            address=ADDRESS.decode(),
        )
        path.write_text(text)
        path.chmod(0o755)
    java = JavaRuntime(tmp_path, tmp_path / "java", 17, "PATH")
    properties = {
        "spark.app.name": "a b",
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": '"-Dlog=/my logs/x" -XX:+UseSerialGC',
    }
    home = JvmHome(tmp_path / "jvm" / "home")
    return JvmOrder(java, tmp_path / "spark", "python", properties, tmp_path / "jvm.log", home)


@pytest.fixture
def started(order: JvmOrder) -> Iterator[list[StartedJvm]]:
    jvms: list[StartedJvm] = []
    yield jvms
    for each in jvms:
        each.kill()
        assert not each.connection.parent.exists()


def called(tmp_path: Path) -> str:
    return (tmp_path / "called").read_text()


def home_of(order: JvmOrder) -> JvmHome:
    assert order.home is not None
    return order.home


def test_the_first_start_is_the_launchers_and_lists_its_classes(
    order: JvmOrder, tmp_path: Path, started: list[StartedJvm]
) -> None:
    started.append(start_jvm(order))
    assert started[0]._await_address() == (7, "secret")
    assert called(tmp_path).startswith("spark-submit --conf spark.app.name=a b")
    assert f"-XX:DumpLoadedClassList={started[0].loaded}" in called(tmp_path)
    assert not started[0].direct


def test_a_later_start_is_direct_with_the_archive_that_there_is(
    order: JvmOrder, tmp_path: Path, started: list[StartedJvm]
) -> None:
    home = home_of(order)
    home.remember(JvmCommand("a.jar:b.jar", ("--add-opens=x",)))
    started.append(start_jvm(order))
    assert started[0]._await_address() == (7, "secret")
    assert started[0].direct
    assert "SharedArchiveFile" not in called(tmp_path)
    assert f"-XX:DumpLoadedClassList={started[0].loaded}" in called(tmp_path)

    home.archive.touch()
    started.append(start_jvm(order))
    started[1]._await_address()
    assert called(tmp_path).startswith(f"java -Xshare:auto -XX:SharedArchiveFile={home.archive} -cp a.jar")


@pytest.mark.parametrize("own_session", [True, False])
def test_a_kill_of_the_process_group_ends_the_jvm_where_it_is_left_there(
    order: JvmOrder, started: list[StartedJvm], own_session: bool
) -> None:
    started.append(start_jvm(replace(order, own_session=own_session)))
    started[0]._await_address()
    assert (os.getpgid(started[0].process.pid) == os.getpgid(0)) is not own_session


def test_the_direct_command_has_all_that_the_launcher_would_give(order: JvmOrder) -> None:
    command = direct_command(order, JvmCommand("a.jar", ("--add-opens=x", "-Dy=1")), home_of(order))
    assert command[1:] == [
        *("-cp", "a.jar", "-Xmx2g", "-Dlog=/my logs/x", "-XX:+UseSerialGC", "--add-opens=x", "-Dy=1"),
        *("-Dspark.app.name=a b", "-Dspark.driver.memory=2g"),
        '-Dspark.driver.extraJavaOptions="-Dlog=/my logs/x" -XX:+UseSerialGC',
        "org.apache.spark.api.python.PythonGatewayServer",
    ]


def test_files_to_fetch_are_left_to_spark_submit(order: JvmOrder) -> None:
    submitted = replace(order, properties={"spark.jars": "my.jar", "spark.driver.memory": "2g"})
    command = direct_command(submitted, JvmCommand("a.jar", ()), home_of(order))
    assert command[1:] == [
        *("-cp", "a.jar", "-Xmx2g", "org.apache.spark.deploy.SparkSubmit"),
        *("--conf", "spark.jars=my.jar", "--conf", "spark.driver.memory=2g", "pyspark-shell"),
    ]


@pytest.mark.parametrize("variable", ["SPARK_SUBMIT_OPTS", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"])
def test_variables_of_the_launcher_are_left_to_it(
    variable: str,
    order: JvmOrder,
    tmp_path: Path,
    started: list[StartedJvm],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home_of(order).remember(JvmCommand("a.jar", ()))
    monkeypatch.setenv(variable, "pyspark-shell")
    started.append(start_jvm(order))
    started[0]._await_address()
    assert called(tmp_path).startswith("spark-submit")


def test_switched_off_the_launcher_starts_it_and_no_classes_are_listed(
    order: JvmOrder, tmp_path: Path, started: list[StartedJvm], monkeypatch: pytest.MonkeyPatch
) -> None:
    home_of(order).remember(JvmCommand("a.jar", ()))
    monkeypatch.setenv("OTTLA_CLASS_ARCHIVE", "off")
    started.append(start_jvm(order))
    started[0]._await_address()
    assert called(tmp_path).startswith("spark-submit")
    assert "DumpLoadedClassList" not in called(tmp_path)


def test_a_direct_start_that_dies_is_made_anew_by_the_launcher(
    order: JvmOrder, tmp_path: Path, started: list[StartedJvm], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = home_of(order)
    home.remember(JvmCommand("a.jar", ()))
    home.archive.write_text("damaged")
    (tmp_path / "java-fails").touch()
    started.append(start_jvm(order))
    monkeypatch.setattr(jvm, "_gateway", lambda port, secret: SimpleNamespace())
    monkeypatch.setattr(jvm, "_command_of", lambda gateway, order: JvmCommand("new.jar", ()))
    started[0].connect()
    assert called(tmp_path).startswith("spark-submit")
    assert not home.archive.exists()
    assert home.command() == JvmCommand("new.jar", ())


def test_an_order_that_fails_either_way_leaves_the_archive_alone(
    order: JvmOrder, tmp_path: Path, started: list[StartedJvm]
) -> None:
    home = home_of(order)
    home.remember(JvmCommand("a.jar", ()))
    home.archive.write_text("sound")
    for name in ("java", "spark-submit"):
        (tmp_path / f"{name}-fails").touch()
    started.append(start_jvm(order))
    with pytest.raises(SparkError, match="could not start Spark"):
        started[0].connect()
    assert home.archive.read_text() == "sound"
    assert home.command() == JvmCommand("a.jar", ())


def test_a_launcher_that_dies_is_one_line_that_names_the_log(
    order: JvmOrder, tmp_path: Path, started: list[StartedJvm]
) -> None:
    (tmp_path / "spark-submit-fails").touch()
    started.append(start_jvm(order))
    with pytest.raises(SparkError, match=r"could not start Spark: see .*jvm\.log") as error:
        started[0]._await_address()
    assert "\n" not in str(error.value)


def test_signals_to_the_group_or_the_service_are_not_for_the_jvm(
    order: JvmOrder, started: list[StartedJvm]
) -> None:
    started.append(start_jvm(order))
    started[0]._await_address()
    process = started[0].process
    assert os.getpgid(process.pid) != os.getpgid(0)
    for number in (signal.SIGTERM, signal.SIGINT):
        process.send_signal(number)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(30) == 0


def test_options_that_were_given_are_not_taken_for_the_launchers() -> None:
    arguments = ["-Xmx1g", "-Dmine", "--add-opens=x", "-XX:+UseSerialGC"]
    assert decided_options(arguments, ["-Dmine", "-XX:+UseSerialGC"]) == ("--add-opens=x",)
