"""kafka-python's integration tests, from its source package on the package index.

The source package leaves out two files that its own tests import: `test/__init__.py` (the standard library
has a package of that name too) and `test/service.py`, which starts servers. Ours stand in: the server runs
already. KAFKA_ROOT, where the tests would find Kafka's own programs, has to be a directory and is not used.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from conformance import downloads
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

SKIPS = {
    "ssl_kafka": "starts a Kafka of its own with TLS, from files that the source package leaves out",
}


def run(target: Target) -> Sequence[TestResult]:
    python = downloads.virtual_environment(target.downloads, "kafka_python")
    source = downloads.source_package(target.downloads, python, "kafka_python.sdist")
    shutil.copytree(source / "test", target.workspace / "test")
    shutil.copy(source / "pyproject.toml", target.workspace)
    (target.workspace / "test" / "__init__.py").touch()
    (target.workspace / "test" / "service.py").write_text(SERVICE, encoding="utf-8")
    return run_pytest(
        PytestRun(
            python,
            target.workspace,
            ("test/integration",),
            skips=SKIPS,
            # DEBUG logs of every failed test, which nobody reads, are most of the time it takes
            options=("--log-level=WARNING",),
            environment={
                "KAFKA_URI": f"kafka://{target.bootstrap}",
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

EXPLAINED = (
    (
        "test/integration/test_admin_integration.py::test_create_describe_delete_acls",
        "neither broker has an authorizer: Apache Kafka answers SECURITY_DISABLED, ottla has no ACLs yet and "
        "does not offer their requests",
    ),
)

SUITES = (
    Suite(
        "kafka-python",
        f"integration tests of kafka-python {VERSION}",
        run,
        settings=SETTINGS,
        explained=EXPLAINED,
    ),
)
