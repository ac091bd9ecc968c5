"""The definition of a scenario, the arguments of its runs, and the sizes and settings that all share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from bench import clients, secured
from bench.figures import Bound, Measure, Target
from bench.servers import Server, System, serve

RECORD_BYTES = 100
BYTES_PER_GIGABYTE = 1e9
BYTES_PER_GIBIBYTE = 1 << 30
BYTES_PER_MEBIBYTE = 1 << 20

# Kafka 4's own defaults, said out loud: they decide the size of a batch.
BATCHED = {"batch.size": "16384", "linger.ms": "5"}
# A batch of one record, and with one partition one batch a request; records-per-request-avg proves it.
# With the default buffer the client heaps up 190,000 batches, and collecting its garbage decides the figure.
UNBATCHED = {"batch.size": "0", "linger.ms": "0", "buffer.memory": "262144", "acks": "1"}

AT_LEAST_A_FIFTH_FASTER = Target(Bound.RATIO_AT_LEAST, 1.2)
AT_LEAST_HALF_AS_FAST_AGAIN = Target(Bound.RATIO_AT_LEAST, 1.5)
NO_SLOWER = Target(Bound.RATIO_AT_MOST, 1.0)
NO_LESS = Target(Bound.RATIO_AT_LEAST, 1.0)
AT_MOST_FOUR_FIFTHS = Target(Bound.RATIO_AT_MOST, 0.8)

RATE = Measure("records_per_second", "records", "records/s", AT_LEAST_HALF_AS_FAST_AGAIN)
CPU = Measure("cpu_seconds_per_gigabyte", "broker's CPU time", "s/GB")


@dataclass(slots=True)
class Turn:
    """One run of one scenario on one side: a fresh directory, and how much of everything to do."""

    system: System
    workspace: Path
    quick: bool = False
    ottla_python_flags: Sequence[str] = ()
    other_cpu_shares: list[float] = field(default_factory=list)

    def server(self, settings: Mapping[str, str] | None = None) -> AbstractContextManager[Server]:
        """The turn's broker; the settings go over those that all have."""
        return serve(
            self.system, self.workspace, settings=settings, ottla_python_flags=self.ottla_python_flags
        )

    def secured_server(
        self, security: secured.Security, name: str = "secured"
    ) -> AbstractContextManager[secured.SecuredServer]:
        """One of the turn's secured brokers, by the name of its directory."""
        return secured.serve(
            self.system, self.workspace / name, security, ottla_python_flags=self.ottla_python_flags
        )

    def size(self, full: int) -> int:
        """`full`, or a fifth of it when only a quick look is wanted. Warm-ups are never shortened."""
        return full // 5 if self.quick else full

    def note(self, client: clients.ClientRun) -> None:
        self.other_cpu_shares.append(client.other_cpu_share)


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named way to drive a broker; `run` gives a value for every measure of the side it ran on.

    shows_client_limit: it runs on the null broker too, because its client may be what limits a figure.
    """

    name: str
    method: str
    measures: tuple[Measure, ...]
    run: Callable[[Turn], dict[str, float]]
    shows_client_limit: bool = False
