"""Real-time mode on a Spark that has it: records come out while the batch that read them goes on."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ottla.client.cluster import KafkaCluster, Topic
from support.pipeline.real_time import RECORDS
from support.servers.cluster import Cluster

PYTHON_ENVIRONMENT = "OTTLA_REAL_TIME_PYTHON"
MAKE_ONE = (
    "python3 -m venv /tmp/spark42 && /tmp/spark42/bin/pip install -e '.[pipeline]' && "
    "/tmp/spark42/bin/pip install pyspark==4.2.0 && "
    f"export {PYTHON_ENVIRONMENT}=/tmp/spark42/bin/python"
)
TIMEOUT_S = 240


@pytest.mark.long
def test_records_flow_through_a_running_batch(cluster: Cluster, unique_name: str, tmp_path: Path) -> None:
    python = os.environ.get(PYTHON_ENVIRONMENT)
    if python is None:
        pytest.skip(f"real-time mode needs Spark 4.1 or newer in a venv of its own: {MAKE_ONE}")
    kafka = KafkaCluster(cluster.bootstrap)
    kafka.ensure_topics([Topic(unique_name), Topic(f"{unique_name}-out")])

    done = subprocess.run(
        [python, "-m", "support.pipeline.real_time", str(tmp_path), cluster.bootstrap, unique_name],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )

    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    assert seen["mode"].startswith("real-time: ")
    assert seen["failure"] is None
    assert seen["received"] == [f"A{number}" for number in range(RECORDS)]
    assert seen["finished_batch"] is None
    assert seen["cut_short"]
