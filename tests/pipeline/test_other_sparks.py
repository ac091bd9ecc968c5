"""Spark 4.0 and 4.2 beside the locked 4.1: the same tests, and a checkpoint of 4.0 that 4.1 goes on from."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from ottla.client.cluster import KafkaCluster, Topic
from support.clients.confluent import produce
from support.pipeline.other_sparks import installed_spark, with_spark
from support.servers.cluster import Cluster

TESTS = Path(__file__).parents[1]
TIMEOUT_SECONDS = 1_800.0
# What depends on Spark's version: the sink, a query's life, formats, Python's state, real-time mode.
FILES = (
    "pipeline/test_exactly_once.py",
    "pipeline/test_exactly_once_jvm.py",
    "pipeline/test_first_batch.py",
    "pipeline/test_formats.py",
    "pipeline/test_keyed_host.py",
    "pipeline/test_query_life.py",
    "pipeline/test_realtime.py",
    "unit/pipeline/test_format_arrow.py",
    "unit/pipeline/test_spark_jars.py",
)
APP = """
from pyspark.sql import functions as F

from ottla.streams import Streams

app = Streams("upgraded")
lines = app.stream("{source}", value=str)
lines.map_values(lambda line: F.upper(line.value)).to("{upper}", value=str, name="upper")
counts = app.stream("{source}", key=str).group_by_key().count(name="counts")
counts.to("{counts}", key=str, value=int)
"""


@pytest.mark.long
@pytest.mark.timeout(2 * TIMEOUT_SECONDS)
@pytest.mark.parametrize("version", ["4.0.0", "4.2.0"])
def test_another_spark_passes_the_tests_of_this_one(version: str) -> None:
    environment = with_spark(installed_spark(version))
    told = [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"]
    assert subprocess.run(told, env=environment, capture_output=True, text=True).stdout.strip() == version
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *FILES],
        cwd=TESTS,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    assert done.returncode == 0, done.stdout[-8_000:]


@pytest.mark.long
@pytest.mark.timeout(2 * TIMEOUT_SECONDS)
def test_a_checkpoint_of_spark_4_0_is_gone_on_from(
    cluster: Cluster, unique_name: str, tmp_path: Path
) -> None:
    kafka = KafkaCluster(cluster.bootstrap)
    names = {kind: f"{unique_name}-{kind}" for kind in ("source", "upper", "counts")}
    kafka.ensure_topics([Topic(name, 2) for name in names.values()])
    app = tmp_path / "upgraded.py"
    app.write_text(APP.format(**names))
    command = [sys.executable, "-m", "ottla", "streams", "run", str(app), "--until-caught-up", "--plain"]
    command += ["--bootstrap", cluster.bootstrap, "--state", str(tmp_path / "state"), "--partitions", "2"]

    for run, environment in enumerate((with_spark(installed_spark("4.0.0")), None)):
        records = [{"key": f"k{number % 5}", "value": f"a{run}-{number}"} for number in range(20)]
        produce(cluster.bootstrap, names["source"], records)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr

    upper = Counter((message.value() or b"").decode() for message in kafka.read(names["upper"]))
    assert upper == Counter(f"A{run}-{number}" for run in range(2) for number in range(20))
    last = {m.key(): int.from_bytes(m.value() or b"", "big") for m in kafka.read(names["counts"])}
    assert last == {b"k%d" % key: 8 for key in range(5)}
