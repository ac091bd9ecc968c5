"""Apache Kafka's Java producer reports through the interceptor whose jar `ottla audit interceptor` makes."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.audit.interceptor.jar import INTERCEPTOR_CLASS, InterceptorError, find_javac, make_interceptor_jar
from ottla.cli.main import ottla
from support.audit.reported import marked, reported
from support.clients.confluent import create_topic, eventually
from support.clients.whole_topics import read_everything
from support.java.java_tools import compile_java, java_command, tools_classpath
from support.servers.ottla_broker import OttlaBroker

PROGRAM = Path(__file__).parents[2] / "support" / "java" / "AuditedSends.java"
STOP_S = 60


def kafka_clients() -> Path:
    (jar,) = [
        Path(path)
        for path in tools_classpath().split(os.pathsep)
        if Path(path).name.startswith("kafka-clients-") and "test" not in Path(path).name
    ]
    return jar


@pytest.fixture(scope="module")
def class_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the program, with the interceptor's jar."""
    if shutil.which("javac") is None:
        pytest.skip("no JDK: the interceptor can't be made")
    directory = tmp_path_factory.mktemp("interceptor")
    jar = directory / "interceptor.jar"
    make_interceptor_jar(find_javac(), kafka_clients(), jar)
    again = directory / "again.jar"
    make_interceptor_jar(find_javac(), kafka_clients(), again)
    assert jar.read_bytes() == again.read_bytes(), "the same source is the same jar"
    assert sorted(path.name for path in directory.iterdir()) == ["again.jar", "interceptor.jar"]
    return os.pathsep.join([compile_java([PROGRAM], tools_classpath(), directory / "classes"), str(jar)])


@contextmanager
def sending(class_path: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """The program, when it has handed all its records over; killed at the end of the block."""
    command = java_command("AuditedSends", *words, class_path=class_path)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "held\n"
            yield process
        finally:
            process.kill()


def test_a_java_producer_reports_all_that_it_sends(
    broker: OttlaBroker, class_path: str, unique_name: str
) -> None:
    create_topic(broker.bootstrap, unique_name, 3)
    flushed, held = random.randrange(1, 300), random.randrange(1, 100)
    with sending(class_path, broker.bootstrap, unique_name, unique_name, str(flushed), str(held)) as process:
        process.communicate("\n", timeout=STOP_S)
        assert process.returncode == 0
    sent = marked(read_everything(broker.bootstrap, unique_name))
    told = reported(broker.bootstrap, unique_name)
    assert {of: report.sent for of, report in told.items()} == sent
    assert sum(sent.values()) == flushed + held
    assert {(report.topic, report.is_final) for report in told.values()} == {(unique_name, True)}
    assert {report.client for report in told.values()} == {'a "quoted" client'}


def test_what_a_killed_java_producer_had_in_its_buffer_is_reported_and_not_there(
    broker: OttlaBroker, class_path: str, unique_name: str
) -> None:
    create_topic(broker.bootstrap, unique_name)
    with sending(class_path, broker.bootstrap, unique_name, unique_name, "40", "25") as process:

        def is_told() -> bool:
            return sum(each.sent for each in reported(broker.bootstrap, unique_name).values()) == 65

        eventually(is_told, "all is reported")
        process.kill()
    there = marked(read_everything(broker.bootstrap, unique_name))
    told = reported(broker.bootstrap, unique_name)
    assert sum(there.values()) == 40
    assert sum(report.sent - there[of] for of, report in told.items()) == 25, (
        "this is what the audit calls lost"
    )
    assert not any(report.is_final for report in told.values())


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("transactional.id=t", "an interceptor hears of no aborts"),
        ("ottla.audit.tier=", "the name of the tier"),
        ("ottla.audit.bucket.ms=1500", "a bucket has whole seconds"),
        ("ottla.audit.report.interval.ms=soon", "a whole number from 100 to 3600000"),
    ],
)
def test_settings_that_would_count_wrongly_stop_the_producer(
    broker: OttlaBroker, class_path: str, unique_name: str, setting: str, reason: str
) -> None:
    words = [broker.bootstrap, unique_name, unique_name, "0", "0", setting]
    command = java_command("AuditedSends", *words, class_path=class_path)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=STOP_S, check=False)
    assert ended.returncode == 1 and reason in ended.stderr


def test_the_command_makes_the_jar_and_says_how_it_is_used(class_path: str, tmp_path: Path) -> None:
    output = tmp_path / "audit.jar"
    words = ["audit", "interceptor", "--output", str(output), "--kafka-clients", str(kafka_clients())]
    answer = CliRunner().invoke(ottla(), words)
    assert answer.exit_code == 0, answer.output
    assert answer.output == f"{output} is made: interceptor.classes={INTERCEPTOR_CLASS}\n"
    assert output.read_bytes() == Path(class_path.split(os.pathsep)[-1]).read_bytes()


def test_without_a_compiler_the_error_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InterceptorError, match="install a JDK"):
        find_javac()


def test_a_jar_without_kafkas_clients_is_refused_and_nothing_is_left(class_path: str, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.jar"
    shutil.copyfile(class_path.split(os.pathsep)[-1], wrong)
    with pytest.raises(InterceptorError, match=r"refuses the interceptor with wrong\.jar"):
        make_interceptor_jar(find_javac(), wrong, tmp_path / "out.jar")
    assert [path.name for path in tmp_path.iterdir()] == ["wrong.jar"]
