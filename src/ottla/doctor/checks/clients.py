"""Checks of clients' way in: advertised addresses, clocks, producers that wait for one replica only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.doctor.checks.security import is_own_host
from ottla.doctor.findings import Check, Finding, Severity, counted, line, named, texts
from ottla.doctor.limits import Limits
from ottla.doctor.snapshot import Gap, NotRead, Snapshot, WhyNot
from ottla.doctor.units import duration_text

PRODUCED_BY_ACKS: Final = (
    "kafka_server_brokertopicmetrics_produce_requests_by_acks_total",
    "ottla_produced_batches_total",
)
"""Counters with a label `acks`."""


def _unreachable(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = [one for one in snapshot.listeners.get() if one.problem is not None]
    ours = [one for one in found if one.ours]
    others = [one for one in found if not one.ours]
    for severity, chosen, why in (
        (Severity.CRITICAL, ours, "clients that come in where this one did are sent there"),
        (Severity.NOTE, others, "which may be meant, if it is for another network"),
    ):
        if chosen:
            shown = named((f"{one.title}: {one.problem}" for one in chosen), 5)
            yield Finding(
                severity,
                f"{counted(len(chosen), 'advertised listener')} not reached from here, {why}: {shown}",
                texts(one.title for one in chosen),
                "advertise an address that the clients of this listener reach; it is changed in "
                "server.properties "
                "(Kafka: advertised.listeners), and shown by",
                line(
                    *("config", "describe", "broker", chosen[0].broker),
                    *("--key", "advertised.listeners", "--all"),
                ),
            )


def _loopback(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    brokers = snapshot.cluster.get().brokers.values()
    found = [one for one in brokers if is_own_host(one.host)]
    remote = [address for address in snapshot.bootstrap if not is_own_host(address.host)]
    elsewhere = [one for one in brokers if not is_own_host(one.host)]
    if found and (remote or elsewhere):
        reason = (
            f"though clients come in at {named(address for address in remote)}"
            if remote
            else f"though broker {named(one.node_id for one in elsewhere)} runs on another machine"
        )
        yield Finding(
            Severity.CRITICAL,
            f"broker {named(one.node_id for one in found)} advertises an address of its own machine "
            f"({found[0].address}), {reason}: other machines' clients look for it on themselves",
            texts(one.node_id for one in found),
            "set advertised.listeners in server.properties to a name that all clients resolve; it is shown "
            "by",
            line(
                *("config", "describe", "broker", found[0].node_id),
                *("--key", "advertised.listeners", "--all"),
            ),
        )


def _clocks(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = [
        one for one in snapshot.clocks.get() if abs(one.skew_ms) - one.error_ms > limits.clock_seconds * 1_000
    ]
    if found:
        shown = named(
            f"{one.node} is {duration_text(abs(one.skew_ms) / 1_000)} "
            f"{'ahead' if one.skew_ms > 0 else 'behind'}"
            for one in found
        )
        yield Finding(
            Severity.WARNING,
            f"clocks differ from this machine's: {shown}; retention, tokens and timestamps go by them",
            texts(one.node for one in found),
            "keep all clocks by NTP (chrony, systemd-timesyncd), this machine's too",
        )


def _acks(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    counts: dict[str, float] = {}
    if not any(name in PRODUCED_BY_ACKS for _, name, _, _ in snapshot.metrics.get().samples):
        reason = "the pages have no counter of produce requests by acks"
        raise NotRead(Gap(WhyNot.NOT_OFFERED, reason))
    for _, name, labels, value in snapshot.metrics.get().samples:
        if name in PRODUCED_BY_ACKS and "acks" in labels:
            counts[labels["acks"]] = counts.get(labels["acks"], 0.0) + value
    weak = {acks: count for acks, count in counts.items() if acks in ("0", "1") and count > 0}
    if weak:
        shown = ", ".join(f"acks={acks}: {count:,.0f}" for acks, count in sorted(weak.items()))
        yield Finding(
            Severity.WARNING,
            f"produce requests that do not wait for all replicas ({shown} of {sum(counts.values()):,.0f} "
            "since the "
            "brokers started): what they were told is written may be lost with one broker",
            texts(f"acks={acks}" for acks in sorted(weak)),
            "set acks=all for the producers",
        )


CHECKS: Final = (
    Check(
        "advertised-loopback",
        Severity.CRITICAL,
        "brokers that advertise an address of their own machine to others",
        ("cluster",),
        _loopback,
    ),
    Check(
        "advertised-unreachable",
        Severity.CRITICAL,
        "advertised listeners that can't be reached from here",
        ("listeners",),
        _unreachable,
    ),
    Check("clock-skew", Severity.WARNING, "clocks that differ", ("clocks",), _clocks),
    Check(
        "weak-acks",
        Severity.WARNING,
        "producers with acks=0 or 1 (needs --metrics-from: requests do not tell)",
        ("metrics",),
        _acks,
    ),
)
