"""The metrics and the health of the services of one process, which may be started again and again.

Figures of requests are kept by a service's name, so that counters go on when it is started anew. The services
tell their own metrics. Two of them may have samples of one (both keep state in topics, say), which are put
together here, as a metric stands in an exposition once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from ottla.config.settings import Settings
from ottla.metrics.endpoint import MetricsEndpoint
from ottla.metrics.exposition import Exposition, Family, Sample
from ottla.metrics.health import Check, Health, Verdict
from ottla.metrics.metric import Metric
from ottla.metrics.process import process_source
from ottla.metrics.settings import LISTENER_NAME, EndpointOptions
from ottla.metrics.tables import services as table
from ottla.security.server_tls import ClientAuthentication
from ottla.web import tls_settings
from ottla.web.request_figures import RequestFigures
from ottla.web.security import Security

NOT_STARTED: Final = "it has not been started yet"
STARTING: Final = "it starts"
ANSWERS: Final = "it answers requests"


def _no_families() -> Iterable[Family]:
    return ()


@dataclass(frozen=True, slots=True)
class Observed:
    """Ways to look into a service, before its start, while it runs and after its end.

    families: its own metrics. checks: whether it can do its work, beside answering at all.
    """

    families: Callable[[], Iterable[Family]] = _no_families
    checks: Sequence[Check] = ()


@dataclass(slots=True)
class ServiceRuns:
    """The runs of one service, one after the other. state: of the present one, in words."""

    name: str
    figures: RequestFigures = field(default_factory=RequestFigures)
    observed: Observed = field(default_factory=Observed)
    starts: int = 0
    answers: bool = False
    state: str = NOT_STARTED

    def verdict(self) -> Verdict:
        """Whether the service answers."""
        return Verdict(self.answers, self.state)

    def ready(self) -> None:
        """The service answers from now on."""
        self.answers, self.state = True, ANSWERS


class ServicesMetrics:
    """Those of one process; its endpoint exposes `exposition` and `health`."""

    def __init__(self, program: str) -> None:
        """program: its command, as `ottla registry`."""
        self.program = program
        self.health = Health()
        self.exposition = Exposition([process_source(program), self._families])
        self._runs: dict[str, ServiceRuns] = {}

    def add(self, name: str) -> None:
        """A service of this name is to run here. Figures that there are of it go on."""
        if name not in self._runs:
            runs = self._runs[name] = ServiceRuns(name)
            self.health.ready.append(Check(name, runs.verdict))

    @contextmanager
    def run_of(self, name: str, observe: Callable[[RequestFigures], Observed]) -> Iterator[ServiceRuns]:
        """One run of a service, from before its start to behind its end."""
        self.add(name)
        runs = self._runs[name]
        runs.starts += 1
        runs.answers, runs.state = False, STARTING
        observed = runs.observed = observe(runs.figures)
        self.health.ready.extend(observed.checks)
        try:
            yield runs
        except Exception as problem:
            runs.state = f"it could not be started, or has ended: {problem}"
            raise
        else:
            if runs.state == ANSWERS:
                runs.state = "it has ended"
        finally:
            runs.answers = False
            runs.observed = Observed()
            for check in observed.checks:
                self.health.ready.remove(check)

    def _families(self) -> Iterator[Family | None]:
        yield from _http_families(list(self._runs.values()))
        together: dict[str, tuple[Metric, list[Sample]]] = {}
        problem: Exception | None = None
        for runs in list(self._runs.values()):
            try:
                for metric, samples in runs.observed.families():
                    together.setdefault(metric.name, (metric, []))[1].extend(samples)
                    yield None
            except Exception as failed:  # the others' are told before it is
                problem = failed
        for metric, samples in together.values():
            yield Family(metric, samples)
        if problem is not None:
            raise problem


def _http_families(services: Sequence[ServiceRuns]) -> Iterator[Family]:
    operations = [
        ((each.name, *key), figures) for each in services for key, figures in each.figures.operations.items()
    ]
    requests: list[Sample] = [
        ((*key, status), count) for key, figures in operations for status, count in figures.statuses.items()
    ]
    yield Family(table.HTTP_REQUESTS, requests)
    yield Family(table.HTTP_SECONDS, [(key, figures.times) for key, figures in operations])
    yield Family(table.HTTP_REQUEST_BYTES, [(key, figures.request_bytes) for key, figures in operations])
    yield Family(table.HTTP_RESPONSE_BYTES, [(key, figures.response_bytes) for key, figures in operations])
    yield Family(
        table.HTTP_ERRORS,
        [((each.name, code), count) for each in services for code, count in each.figures.errors.items()],
    )
    yield Family(
        table.HTTP_REFUSED,
        [((each.name, one), count) for each in services for one, count in each.figures.refused.items()],
    )
    yield Family(table.HTTP_IN_FLIGHT, [((each.name,), each.figures.in_flight) for each in services])
    yield Family(table.HTTP_CONNECTIONS, [((each.name,), each.figures.connections) for each in services])
    opened: list[Sample] = [((each.name,), each.figures.connections_opened) for each in services]
    yield Family(table.HTTP_CONNECTIONS_OPENED, opened)
    yield Family(table.SERVICE_UP, [((each.name,), int(each.answers)) for each in services])
    yield Family(table.SERVICE_STARTS, [((each.name,), each.starts) for each in services])


def endpoint_of(
    settings: Settings, security: Security | None, metrics: ServicesMetrics
) -> MetricsEndpoint | None:
    """The endpoint that these settings ask for, None where metrics are off. Raises ConfigError."""
    options = EndpointOptions.of(settings)
    if options is None:
        return None
    tls = None
    if options.address.uses_tls and security is not None:
        tls = security.tls_context(LISTENER_NAME)
    asks = tls_settings.tls_of(settings, LISTENER_NAME).client_authentication
    return MetricsEndpoint(
        metrics.program,
        options,
        metrics.exposition,
        metrics.health,
        tls,
        asks_for_certificates=asks is ClientAuthentication.REQUIRED,
    )
