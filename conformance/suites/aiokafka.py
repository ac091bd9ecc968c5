"""aiokafka's tests of a broker, from its repository: its packages on the index hold no tests.

The address of the repository is what the installed package says; the commit is that of the version's tag.
Tests that need no broker (codecs, protocol, records) are about aiokafka alone and not run. The broker is
secured, as the tests of TLS and of logins come to its other listeners.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance import downloads
from conformance.access import Listener, Way
from conformance.pytest_runs import PytestRun, run_pytest
from conformance.suite import Suite, Target, TestResult

VERSION = "0.14.0"
COMMIT = "672947afe85c91b7d953f0259e69837a711d3246"
#: The tests read the version of Kafka out of the name of the docker image that they would have started.
IMAGE = "running/kafka:2.13_4.3.1"
#: Of the client's key, as the tests have it.
KEY_PASSWORD = "abcdefgh"
REPOSITORY = Path(__file__).resolve().parents[2]
ADMINISTER = (sys.executable, "-m", "conformance.administer")
OVERRIDE = "\nfrom conformance_aiokafka import *  # noqa: E402, F403\n"


def run(target: Target) -> Sequence[TestResult]:
    python = downloads.virtual_environment(target.downloads, "aiokafka")
    address = downloads.project_address(python, "aiokafka")
    source = downloads.checkout(target.downloads, address, COMMIT)
    shutil.copytree(source / "tests", target.workspace / "tests")
    shutil.copy(source / "pyproject.toml", target.workspace)
    conftest = target.workspace / "tests" / "conftest.py"
    conftest.write_text(conftest.read_text(encoding="utf-8") + OVERRIDE, encoding="utf-8")
    folder = target.workspace / "ssl"
    folder.mkdir()
    access = target.access
    assert access is not None
    for name, source in (("ca.crt", access.ca), ("client.crt", access.certificate)):
        shutil.copy(source, folder / name)
    (folder / "client.key").write_bytes(access.encrypted_key(KEY_PASSWORD))
    return run_pytest(
        PytestRun(
            python,
            target.workspace,
            ("tests",),
            fixture="kafka_server",
            options=(f"--docker-image={IMAGE}", "--no-pull"),
            environment={
                "CONFORMANCE_BROKER": target.bootstrap,
                "CONFORMANCE_SSL": access.addresses[Listener.MUTUAL],
                "CONFORMANCE_SASL_PLAINTEXT": access.addresses[Listener.SASL_PLAINTEXT],
                "CONFORMANCE_SASL_SSL": access.addresses[Listener.SASL_SSL],
                "CONFORMANCE_SSL_FOLDER": str(folder),
                "CONFORMANCE_ADMINISTER": json.dumps([*ADMINISTER, target.bootstrap]),
                "CONFORMANCE_ADMINISTER_PATH": str(REPOSITORY),
            },
        )
    )


SUITES = (
    Suite(
        "aiokafka",
        f"tests of aiokafka {VERSION} that use a broker",
        run,
        settings=(("node.id", "0"), ("num.partitions", "2")),
        needs=("git",),
        way=Way.PLAINTEXT,
    ),
)
