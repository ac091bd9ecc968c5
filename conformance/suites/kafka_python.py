"""kafka-python's integration tests, from its source package on the package index.

The source package leaves out two files that its own tests import: `test/__init__.py` (the standard library
has a package of that name too) and `test/service.py`, which starts servers. Ours stand in: the server runs
already, and is secured: tests of TLS and of logins come to its other listeners. KAFKA_ROOT, where the tests
would find Kafka's own programs, has to be a directory and is not used.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from conformance import downloads
from conformance.access import Listener, Way
from conformance.pytest_runs import PytestRun, run_pytest
from conformance.suite import Suite, Target, TestResult

VERSION = "3.0.12"
#: Tells kafka-python's clients and tests what the broker can do.
KAFKA_VERSION = "4.3"

SERVICE = '''\
"""The broker runs already."""


class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def stop(self):
        pass

    def dump_logs(self):
        pass


class SpawnedService:
    def __init__(self, *arguments, **options):
        raise RuntimeError("these tests run on a broker that is there already")
'''

OVERRIDE = "\nfrom conformance_kafka_python import *  # noqa: E402, F403\n"


def run(target: Target) -> Sequence[TestResult]:
    python = downloads.virtual_environment(target.downloads, "kafka_python")
    source = downloads.source_package(target.downloads, python, "kafka_python.sdist")
    shutil.copytree(source / "test", target.workspace / "test")
    shutil.copy(source / "pyproject.toml", target.workspace)
    (target.workspace / "test" / "__init__.py").touch()
    (target.workspace / "test" / "service.py").write_text(SERVICE, encoding="utf-8")
    conftest = target.workspace / "test" / "integration" / "conftest.py"
    conftest.write_text(conftest.read_text(encoding="utf-8") + OVERRIDE, encoding="utf-8")
    access = target.access
    assert access is not None
    authority = target.workspace / "ca-cert"  # by the name that the tests look for
    shutil.copy(access.ca, authority)
    return run_pytest(
        PytestRun(
            python,
            target.workspace,
            ("test/integration",),
            # DEBUG logs of every failed test, which nobody reads, are most of the time it takes
            options=("--log-level=WARNING",),
            environment={
                "CONFORMANCE_BROKER": target.bootstrap,
                "CONFORMANCE_SSL": access.addresses[Listener.SSL],
                "CONFORMANCE_SASL_PLAINTEXT": access.addresses[Listener.SASL_PLAINTEXT],
                "CONFORMANCE_CA": str(authority),
                "KAFKA_VERSION": KAFKA_VERSION,
                "KAFKA_ROOT": str(target.workspace),
            },
        )
    )


#: What the broker that kafka-python's tests start by themselves is set to.
SETTINGS = (
    ("node.id", "0"),
    ("num.partitions", "4"),
    ("advertised.listeners", "PLAINTEXT://{bootstrap}"),
)

SUITES = (
    Suite(
        "kafka-python",
        f"integration tests of kafka-python {VERSION}",
        run,
        settings=SETTINGS,
        way=Way.PLAINTEXT,
    ),
)
