"""Checks of brokers: those that are away or silent, settings and versions that do not agree."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ottla.doctor.findings import Check, Finding, Severity, counted, line, named, texts
from ottla.doctor.limits import Limits
from ottla.doctor.snapshot import NodeVersions, Setting, Snapshot
from ottla.protocol.apis import ApiKey

METADATA_VERSION: Final = "metadata.version"
OF_ONE_BROKER: Final = frozenset(
    {
        "advertised.host.name",
        "advertised.listeners",
        "advertised.port",
        "broker.id",
        "broker.rack",
        "controller.quorum.bootstrap.servers",
        "host.name",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "port",
        "process.roles",
    }
)
"""Settings that differ by their nature."""
OF_ONE_BROKER_PARTS: Final = (
    ".keystore.",
    ".truststore.",
    "ssl.key",
    "rack",
    "throttled.rate",
    "ottla.metrics",
    "metrics.listen",
)
NEEDLESS_TO_AGREE: Final = (
    "num.io.threads",
    "num.network.threads",
    "num.recovery.threads",
    "background.threads",
    "queued.",
    "socket.",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.threads",
)
"""They may follow from the machine that a broker runs on."""
OF_AUTHORIZERS: Final = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
PLUGIN_PREFIXES: Final = (
    *("confluent.", "listener.name.", "metrics.", "client.quota.", "config.providers."),
    *("early.start.listeners", "principal.builder.", "rlmm.config.", "rsm.config."),
)
MOST_DIFFERENCES: Final = 20


def _fenced(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    cluster = snapshot.cluster.get()
    found = sorted(node for node, broker in cluster.brokers.items() if broker.fenced)
    if found:
        yield Finding(
            Severity.WARNING,
            f"broker {named(found)} registered but fenced: down, starting, or cut off from the controller",
            texts(found),
            "start it; one that is gone for good gives its replicas to others, then is unregistered",
            line("quorum", "unregister", "--broker", found[0])
            if not _has_replicas(snapshot, found[0])
            else line("partition", "reassign", "--from", found[0]),
        )


def _has_replicas(snapshot: Snapshot, node: int) -> bool:
    topics = snapshot.topics.value
    return topics is None or any(
        node in one.replicas for topic in topics.values() for one in topic.partitions
    )


def _silent(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = [one for one in snapshot.contacts.get() if one.problem is not None and not one.broker.fenced]
    if found:
        shown = named(f"broker {one.broker.node_id} at {one.broker.address}: {one.problem}" for one in found)
        yield Finding(
            Severity.CRITICAL,
            f"{counted(len(found), 'broker')} that the cluster takes for alive, but that "
            f"{'does' if len(found) == 1 else 'do'} not answer here: {shown}",
            texts(one.broker.node_id for one in found),
            "see that the broker runs and is not held up, and that advertised.listeners names an address "
            "that "
            "clients reach",
            line(
                *("config", "describe", "broker", found[0].broker.node_id),
                *("--key", "advertised.listeners", "--all"),
            ),
        )


def _unknown(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found: dict[str, list[int]] = {}
    for node, settings in sorted(snapshot.broker_settings.get().items()):
        for name, each in settings.items():
            if each.unknown and not _is_of_a_plugin(name):
                found.setdefault(name, []).append(node)
    if found:
        yield Finding(
            Severity.WARNING,
            f"{counted(len(found), 'setting')} that the brokers do not know, and ignore: "
            f"{named(sorted(found))}",
            texts(sorted(found)),
            "look for a mistyped name, or one that this version has no more, and take it out of "
            "server.properties",
            line("config", "describe", "broker", found[min(found)][0]),
        )


def _is_of_a_plugin(name: str) -> bool:
    """Settings of classes that a broker loads have prefixes of their own, which it does not know."""
    return name in OF_AUTHORIZERS or name.startswith(PLUGIN_PREFIXES)


def _differ(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    by_broker = snapshot.broker_settings.get()
    if len(by_broker) < 2:
        return
    names = {name for settings in by_broker.values() for name in settings}
    found = {}
    for name in sorted(names):
        if name in OF_ONE_BROKER or any(part in name for part in OF_ONE_BROKER_PARTS):
            continue
        values = {node: _shown(settings.get(name)) for node, settings in by_broker.items()}
        if len(set(values.values())) > 1:
            found[name] = values
    grave = [name for name in found if not name.startswith(NEEDLESS_TO_AGREE)]
    for severity, chosen in (
        (Severity.WARNING, grave),
        (Severity.NOTE, [name for name in found if name not in grave]),
    ):
        if chosen:
            shown = named((f"{name} ({_values(found[name])})" for name in chosen), 5)
            yield Finding(
                severity,
                f"{counted(len(chosen), 'setting')} not the same on all brokers: {shown}",
                texts(chosen),
                "set one value for all brokers, in every server.properties or, where it can change as "
                "brokers run, "
                "as the default of all",
                line("config", "describe", "broker", *sorted(by_broker)[:2], *_keys(chosen), "--all"),
            )


def _keys(names: list[str]) -> list[str]:
    return [word for name in names[:MOST_DIFFERENCES] for word in ("--key", name)]


def _shown(setting: Setting | None) -> str:
    if setting is None:
        return "not there"
    return "hidden" if setting.value is None else setting.value


def _values(values: Mapping[int, str]) -> str:
    nodes: dict[str, list[int]] = {}
    for node, value in sorted(values.items()):
        nodes.setdefault(value, []).append(node)
    return "; ".join(f"{value or 'empty'} on {named(listed, 3)}" for value, listed in nodes.items())


def _versions(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = snapshot.versions.get()
    groups: dict[object, list[int]] = {}
    for node, each in sorted(found.items()):
        groups.setdefault(_release(each), []).append(node)
    if len(groups) > 1:
        listed = sorted(groups.values(), key=len)
        shown = "; ".join(f"broker {named(nodes, 5)}" for nodes in listed)
        yield Finding(
            Severity.WARNING,
            f"brokers of {len(groups)} different versions, by the requests and features that they know: "
            f"{shown}",
            texts(node for nodes in listed[:-1] for node in nodes),
            "end the upgrade: install the same version everywhere and restart these brokers one by one",
        )


def _release(versions: NodeVersions) -> object:
    apis = {key: span for key, span in versions.apis.items() if key != ApiKey.API_VERSIONS}
    return tuple(sorted(apis.items())), tuple(sorted(versions.supported.items()))


def _metadata_version(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    found = snapshot.versions.get().values()
    most = [each.supported[METADATA_VERSION][1] for each in found if METADATA_VERSION in each.supported]
    levels = [each.finalized[METADATA_VERSION] for each in found if METADATA_VERSION in each.finalized]
    if most and levels and max(levels) < min(most):
        yield Finding(
            Severity.NOTE,
            f"metadata.version is {max(levels)}, though all brokers support {min(most)}: an upgrade that was "
            "not "
            "finished",
            (METADATA_VERSION,),
            "finalize the version once no downgrade is wanted any more",
            line("quorum", "upgrade", "--metadata-version", min(most)),
        )


CHECKS: Final = (
    Check(
        "silent-brokers",
        Severity.CRITICAL,
        "brokers taken for alive that do not answer at their advertised address",
        ("cluster", "contacts"),
        _silent,
    ),
    Check(
        "fenced-brokers",
        Severity.WARNING,
        "brokers registered but fenced",
        ("cluster",),
        _fenced,
        ("topics",),
    ),
    Check(
        "unknown-settings",
        Severity.WARNING,
        "settings that brokers do not know",
        ("broker_settings",),
        _unknown,
    ),
    Check(
        "settings-differ",
        Severity.WARNING,
        "settings that are not the same on all brokers",
        ("broker_settings",),
        _differ,
    ),
    Check("versions-differ", Severity.WARNING, "brokers of different versions", ("versions",), _versions),
    Check(
        "metadata-version",
        Severity.NOTE,
        "a metadata.version below the one that all brokers support",
        ("versions",),
        _metadata_version,
    ),
)
