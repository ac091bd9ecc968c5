"""`ottla.pytest` in runs of pytest of its own: what its fixtures give, and what a report shows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent

import pytest

from ottla.testing import running_broker
from support.servers.apache_kafka import ApacheKafka
from support.servers.processes import descendants, wait_until_gone

TIMEOUT_S = 120


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "pytest", "-p", "ottla.pytest", "-p", "no:cacheprovider", "-q", *words]


def run_pytest(project: Path, *words: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Run pytest on files, `test_x="…"` for `test_x.py`, in a directory of their own."""
    write(project, files)
    return subprocess.run(
        command(f"--basetemp={project / 'temporary'}", *words),
        cwd=project,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env=environment(),
    )


def write(project: Path, files: dict[str, str]) -> None:
    project.mkdir(exist_ok=True)
    (project / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    for name, text in files.items():
        (project / f"{name}.py").write_text(dedent(text))


def environment() -> dict[str, str]:
    """This one's, without the traces of the run of pytest that this test is in."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}


def test_the_fixtures(tmp_path: Path) -> None:
    run = run_pytest(
        tmp_path,
        conftest="""
            import pytest

            @pytest.fixture(scope="session")
            def kafka_config():
                return {"message.max.bytes": 5000}
        """,
        test_fixtures="""
            import json
            import os
            import urllib.request

            import pytest
            from ottla.testing import KafkaTestError

            seen = []

            @pytest.mark.parametrize("turn", [1, 2])
            def test_topics_have_names_of_their_own_on_one_broker(kafka, turn):
                topic = kafka.topic("orders", partitions=2)
                assert topic.startswith("orders-")
                kafka.produce(topic, "a", key="k")
                (record,) = kafka.consume(topic, 1)
                assert record.key_text == "k" and record.text == "a"
                seen.append((kafka.bootstrap, topic))
                assert len({bootstrap for bootstrap, _ in seen}) == 1
                assert len({topic for _, topic in seen}) == turn

            def test_settings_of_the_session(kafka):
                with pytest.raises(KafkaTestError, match="MESSAGE_TOO_LARGE"):
                    kafka.produce(kafka.topic(), "x" * 6000)

            @pytest.mark.kafka_config({"message.max.bytes": 500})
            def test_a_broker_of_ones_own(kafka_broker, kafka):
                assert kafka_broker.bootstrap != kafka.bootstrap
                with pytest.raises(KafkaTestError, match="MESSAGE_TOO_LARGE"):
                    kafka_broker.produce(kafka_broker.topic(), "x" * 600)
                kafka_broker.kill()

            def test_a_cluster(kafka_cluster):
                cluster = kafka_cluster(2, {"message.max.bytes": 500})
                topic = cluster.topic()
                assert cluster.in_sync(topic) == [1, 2]

            def test_a_registry(schema_registry):
                request = urllib.request.Request(
                    f"{schema_registry.url}/subjects/s/versions",
                    json.dumps({"schema": '"string"'}).encode(),
                    {"Content-Type": "application/json"},
                )
                with urllib.request.urlopen(request, timeout=30) as answer:
                    assert json.load(answer)["id"] == 1
        """,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "6 passed" in run.stdout
    # and the logs of the session's broker stay no longer than the session
    assert not list((tmp_path / "temporary").glob("kafka*"))


def test_a_run_that_uses_no_fixture_loads_nothing_of_ottla(tmp_path: Path) -> None:
    run = run_pytest(
        tmp_path,
        test_nothing="""
            import sys

            def test_modules():
                assert {name for name in sys.modules if name.startswith("ottla")} == {"ottla", "ottla.pytest"}
        """,
    )
    assert run.returncode == 0, run.stdout


def test_the_report_of_a_failed_test_has_the_lines_that_the_broker_logged_meanwhile(tmp_path: Path) -> None:
    run = run_pytest(
        tmp_path,
        test_reports="""
            def test_passes(kafka_broker):
                pass

            def test_one(kafka):
                kafka.restart()

            def test_two(kafka):
                kafka.restart()
                assert False

            def test_three(kafka, kafka_broker):
                assert False
        """,
    )
    assert run.returncode == 1, run.stdout
    # what the session's broker logged at its start and for the first test is in no report
    _, _, rest = run.stdout.partition("test_two")
    two, _, three = rest.partition("test_three")
    for report in two, three:
        assert report.count("log of broker 1 at") == 1
        assert report.count("INFO ottla.broker node started") == 1


@pytest.mark.long
def test_a_broker_that_does_not_start_is_told_with_its_reason(tmp_path: Path) -> None:
    run = run_pytest(
        tmp_path,
        test_refused="""
            import pytest

            @pytest.mark.kafka_config({"num.partitions": "many"})
            def test_it(kafka_broker):
                pass
        """,
    )
    assert run.returncode == 1
    assert "broker 1 did not start, exit code 1" in run.stdout
    assert "num.partitions" in run.stdout


@pytest.mark.long
def test_each_process_of_xdist_has_a_broker(tmp_path: Path) -> None:
    run = run_pytest(
        tmp_path,
        "-n2",
        test_many="""
            import os
            import pathlib
            import time
            import pytest

            @pytest.mark.parametrize("number", range(8))
            def test_it(kafka, number, request):
                # held until both processes have a test
                seen = pathlib.Path(request.config.rootpath) / "seen"
                seen.mkdir(exist_ok=True)
                (seen / os.environ["PYTEST_XDIST_WORKER"]).write_text(kafka.bootstrap)
                deadline = time.monotonic() + 60
                while len(list(seen.iterdir())) < 2 and time.monotonic() < deadline:
                    time.sleep(0.01)
                kafka.produce(kafka.topic(), "a")
                kafka.create_topic(f"the-name-{number}")
        """,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    addresses = [each.read_text() for each in (tmp_path / "seen").iterdir()]
    assert len(set(addresses)) == 2


@pytest.mark.long
def test_another_cluster_takes_the_place_of_the_sessions_broker(tmp_path: Path) -> None:
    with running_broker() as other:
        run = run_pytest(
            tmp_path,
            f"--kafka-bootstrap={other.bootstrap}",
            test_other="def test_it(kafka): kafka.create_topic('made-there')",
        )
        assert run.returncode == 0, run.stdout
        assert other.consume("made-there") == []


@pytest.mark.long
def test_a_killed_run_leaves_no_server_behind(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "test_long": """
                import pathlib
                import time

                def test_it(kafka, kafka_broker, schema_registry, request):
                    kafka_broker.pause()
                    (pathlib.Path(request.config.rootpath) / "up").touch()
                    time.sleep(600)
            """
        },
    )
    words = command("-n1", f"--basetemp={tmp_path / 'temporary'}")
    run = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, env=environment())
    deadline = time.monotonic() + TIMEOUT_S
    while not (tmp_path / "up").exists():
        assert time.monotonic() < deadline and run.poll() is None
        time.sleep(0.05)
    children = descendants(run.pid)
    assert len([words for words in children.values() if "ottla" in words or "registry" in words]) == 3
    run.send_signal(signal.SIGKILL)
    run.wait(TIMEOUT_S)
    assert not wait_until_gone(children)


@pytest.mark.long
def test_the_helpers_need_no_client_library(tmp_path: Path) -> None:
    run = run_pytest(
        tmp_path,
        conftest="""
            import sys
            sys.modules.update(dict.fromkeys(["confluent_kafka", "aiokafka", "kafka"]))
        """,
        test_it="""
            def test_it(kafka):
                topic = kafka.topic()
                kafka.produce(topic, "a")
                assert kafka.consume(topic)[0].text == "a"
        """,
    )
    assert run.returncode == 0, run.stdout


@pytest.mark.long
@pytest.mark.java
def test_the_helpers_and_the_registry_work_on_apache_kafka(tmp_path: Path) -> None:
    with ApacheKafka.start(tmp_path / "kafka") as kafka:
        run = run_pytest(
            tmp_path / "project",
            f"--kafka-bootstrap={kafka.bootstrap}",
            test_it="""
                import pytest
                from ottla.testing import KafkaTestError

                def test_records(kafka):
                    topic = kafka.topic("t", partitions=3, config={"retention.ms": 100000})
                    written = [
                        kafka.produce(topic, f"{n}", key=f"k{n}", headers={"h": "v"}) for n in range(9)
                    ]
                    found = kafka.consume(topic, 9)
                    assert {(r.partition, r.offset) for r in found} == {
                        (p.partition, p.offset) for (p,) in written
                    }
                    assert sorted(r.text for r in found) == [f"{n}" for n in range(9)]
                    with pytest.raises(KafkaTestError, match="TOPIC_ALREADY_EXISTS"):
                        kafka.create_topic(topic)

                def test_a_registry(schema_registry):
                    assert schema_registry.running
            """,
        )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "2 passed" in run.stdout
