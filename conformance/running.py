"""Run one suite on one side: a fresh broker, the suite, a look whether the broker still lives, its stop."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from conformance.access import Access, Listener, Way, add_users
from conformance.suite import BOOTSTRAP_PLACEHOLDER, Suite, SuiteError, Target, TestResult, Verdict
from support.servers.apache_kafka import ApacheKafka
from support.servers.cluster import ServerError, free_port
from support.servers.ottla_broker import OttlaBroker

OTTLA, KAFKA = "ottla", "apache-kafka"
#: Kafka first: what it does is what ottla is held to.
SIDES = (KAFKA, OTTLA)
#: The listener of the suites that don't come in plaintext.
LISTENERS = {Way.SASL_SSL: Listener.SASL_SSL, Way.MUTUAL: Listener.MUTUAL}
#: The name of the result that a suite gets when its broker was found dead at its end.
BROKER_LIVES = "the broker lives and stops cleanly"


@dataclass(frozen=True, slots=True)
class SideResult:
    """How a suite went on one side. error: why it could not be run at all; then there are no tests."""

    tests: tuple[TestResult, ...]
    error: str = ""


def missing_commands(suite: Suite) -> tuple[str, ...]:
    """The commands that a suite needs and the PATH does not have."""
    return tuple(command for command in suite.needs if shutil.which(command) is None)


def run_side(suite: Suite, side: str, *, scratch: Path, downloads: Path) -> SideResult:
    """Run a suite against a fresh broker of this side.

    The broker's output and the suite's workspace are under `scratch/<suite>/<side>` until its next run; the
    broker's data goes at once.
    """
    place = scratch / suite.name / side
    shutil.rmtree(place, ignore_errors=True)
    workspace = place / "workspace"
    workspace.mkdir(parents=True)
    downloads.mkdir(parents=True, exist_ok=True)
    try:
        access = None if suite.way is Way.OPEN else Access.create(place / "certificates")
        with _broker(suite, side, place, access) as broker:
            data = broker.log_directory if isinstance(broker, ApacheKafka) else broker.data_dir
            listener = LISTENERS.get(suite.way)
            bootstrap = access.addresses[listener] if access and listener else broker.bootstrap
            target = Target(side, bootstrap, data, workspace, downloads, suite.way, access)
            tests = (*suite.run(target), _end_of(broker))
    except (SuiteError, ServerError) as error:
        return SideResult((), str(error))
    shutil.rmtree(place / "data", ignore_errors=True)
    return SideResult(tests)


@contextmanager
def _broker(
    suite: Suite, side: str, place: Path, access: Access | None
) -> Iterator[ApacheKafka | OttlaBroker]:
    port = free_port()
    settings = {
        name: value.replace(BOOTSTRAP_PLACEHOLDER, f"127.0.0.1:{port}") for name, value in suite.settings
    }
    if access is None:
        kind = ApacheKafka if side == KAFKA else OttlaBroker
        with kind.start(place / "data", port, settings) as broker:
            yield broker
    else:
        with _secured_broker(side, place, port, {**access.settings(), **settings}, access) as broker:
            add_users(broker.bootstrap)
            yield broker


def _secured_broker(
    side: str, place: Path, port: int, settings: Mapping[str, str], access: Access
) -> AbstractContextManager[ApacheKafka | OttlaBroker]:
    if advertised := settings.get("advertised.listeners"):
        settings = {**settings, "advertised.listeners": f"{advertised},{access.listeners()}"}
    if side == OTTLA:
        more = ("--listen", f"127.0.0.1:{port},{access.listeners()}")
        return OttlaBroker.start(place / "data", port, settings, more)
    controller = f"127.0.0.1:{free_port()}"
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://{controller},{access.listeners()}",
        "controller.quorum.bootstrap.servers": controller,
    }
    return ApacheKafka.start(place / "data", port, {**settings, **listeners})


def _end_of(broker: ApacheKafka | OttlaBroker) -> TestResult:
    if not broker.server.running:
        code = broker.server.process.returncode
        return TestResult(BROKER_LIVES, Verdict.FAILED, f"it ended by itself with exit code {code}")
    try:
        code = broker.stop()
    except ServerError as error:
        return TestResult(BROKER_LIVES, Verdict.FAILED, str(error).splitlines()[0])
    # A JVM that ends by SIGTERM says so in its exit code, after it has shut down cleanly.
    if code not in ((0, 143, -15) if isinstance(broker, ApacheKafka) else (0,)):
        return TestResult(BROKER_LIVES, Verdict.FAILED, f"it stopped with exit code {code}")
    return TestResult(BROKER_LIVES, Verdict.PASSED)
