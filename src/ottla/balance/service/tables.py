"""Answers as text, in the columns of Cruise Control's tables; made of the JSON that says the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

Body = Mapping[str, Any]

_LOAD: Final = (
    ("DISK_CAP(MB)", 20),
    ("DISK(MB)/_(%)_", 26),
    ("CORE_NUM", 20),
    ("CPU(%)", 15),
    ("NW_IN_CAP(KB/s)", 25),
    ("LEADER_NW_IN(KB/s)", 25),
    ("FOLLOWER_NW_IN(KB/s)", 25),
    ("NW_OUT_CAP(KB/s)", 25),
    ("NW_OUT(KB/s)", 20),
    ("PNW_OUT(KB/s)", 20),
    ("LEADERS/REPLICAS", 20),
)
_HOST_WIDTH: Final = 16
_RACK_WIDTH: Final = 16
_PARTITION_WIDTHS: Final = (10, 10, 30, 30, 25, 25, 10)
_TROUBLES: Final = {
    "offline": "Offline Partitions:",
    "with-offline-replicas": "Partitions with Offline Replicas:",
    "urp": "Under Replicated Partitions:",
    "under-min-isr": "Under MinIsr Partitions:",
    "other": "Other Partitions:",
}


def load_text(body: Body) -> str:
    """The loads of brokers: a row each, columns end with a comma."""
    rows: Sequence[Body] = body["brokers"]
    if not rows:
        return "No broker stats found."
    host = max(_HOST_WIDTH, *(len(one["Host"]) + 4 for one in rows))
    rack = max(_RACK_WIDTH, *(len(one["Rack"]) + 4 for one in rows))
    heads = "".join(f"{name:>{width}}" for name, width in _LOAD)
    lines = ["", "", f"{'HOST':>{host}}{'BROKER':>15}{'RACK':>{rack}} {heads}"]
    for one in rows:
        percent = f"{one['DiskPct']:05.2f}"
        cells = [
            f"{one['Host']:>{host}}",
            f"{one['Broker']:>14}",
            f"{one['Rack']:>{rack - 1}}",
            f" {one['DiskCapacityMB']:>19.3f}",
            f"{one['DiskMB']:>19.3f}/{percent}",
            f"{one['NumCore']:>19}",
            f"{one['CpuPct']:>14.3f}",
            f"{one['NetworkInCapacity']:>24.3f}",
            f"{one['LeaderNwInRate']:>24.3f}",
            f"{one['FollowerNwInRate']:>24.3f}",
            f"{one['NetworkOutCapacity']:>24.3f}",
            f"{one['NwOutRate']:>19.3f}",
            f"{one['PnwOutRate']:>19.3f}",
            f"{one['Leaders']:>14}/{one['Replicas']}",
        ]
        lines.append(",".join(cells))
    return _joined(lines)


def partition_load_text(body: Body) -> str:
    """The loads of partitions, a row each."""
    rows: Sequence[Body] = body["records"]
    width = max([20, *(len(f"{one['topic']}-{one['partition']}") + 5 for one in rows)])
    heads = ("CPU (%_CORES)", "DISK (MB)", "NW_IN (KB/s)", "NW_OUT (KB/s)", "MSG_IN (#/s)")
    lines = [
        f"{'PARTITION':>{width}}{'LEADER':>10}{'FOLLOWERS':>30}" + "".join(f"{one:>20}" for one in heads)
    ]
    lines += [
        f"{one['topic'] + '-' + str(one['partition']):>{width}}{one['leader']:>10}{one['followers']!s:>30}"
        f"{one['cpu']:>19.6f}{one['disk']:>19.3f}{one['networkInbound']:>19.3f}"
        f"{one['networkOutbound']:>19.3f}{one['msg_in']:>19.3f}"
        for one in rows
    ]
    return _joined(lines)


def state_text(body: Body) -> str:
    """The state of a cluster: a sentence, brokers, directories, partitions that are not whole."""
    brokers: Body = body["KafkaBrokerState"]
    return _joined([*_broker_lines(brokers), "", *_partition_lines(body["KafkaPartitionState"])])


def _broker_lines(brokers: Body) -> Iterator[str]:
    told: Body = brokers["Summary"]
    yield (
        f"Summary: The cluster has {told['Brokers']} brokers, {told['Replicas']} replicas, {told['Leaders']} "
        f"leaders, and {told['Topics']} topics with avg replication factor: "
        f"{told['AvgReplicationFactor']:.2f}. [Leaders/Replicas per broker] avg: "
        f"{told['AvgLeadersPerBroker']:.2f}/{told['AvgReplicasPerBroker']:.2f} max: "
        f"{told['MaxLeadersPerBroker']}/{told['MaxReplicasPerBroker']} std: "
        f"{told['StdLeadersPerBroker']:.2f}/{told['StdReplicasPerBroker']:.2f}"
    )
    yield ""
    yield "Brokers:"
    heads = ("BROKER", "LEADER(S)", "REPLICAS", "OUT-OF-SYNC", "OFFLINE", "IS_CONTROLLER", "BROKER_SET")
    yield "".join(f"{one:>20}" for one in heads)
    for broker, replicas in brokers["ReplicaCountByBrokerId"].items():
        cells = (
            broker,
            brokers["LeaderCountByBrokerId"][broker],
            replicas,
            brokers["OutOfSyncCountByBrokerId"][broker],
            brokers["OfflineReplicaCountByBrokerId"][broker],
            str(brokers["IsController"][broker]).lower(),
            "null",
        )
        yield "".join(f"{one:>20}" for one in cells)
    yield ""
    yield "LogDirs of brokers with replicas:"
    online, offline = brokers["OnlineLogDirsByBrokerId"], brokers["OfflineLogDirsByBrokerId"]
    widths = [max([20, *(len(_listed(each)) for each in dirs.values())]) + 14 for dirs in (online, offline)]
    yield f"{'BROKER':>20}{'ONLINE-LOGDIRS':>{widths[0]}}{'OFFLINE-LOGDIRS':>{widths[1]}}"
    for broker in online:
        yield f"{broker:>20}{_listed(online[broker]):>{widths[0]}}{_listed(offline[broker]):>{widths[1]}}"


def _partition_lines(partitions: Body) -> Iterator[str]:
    verbose = "other" in partitions
    rows = [row for part in partitions.values() for row in part]
    width = max((len(one["topic"]) for one in rows), default=20) + 5
    yield (
        "All Partitions in the Cluster (verbose):"
        if verbose
        else "Under Replicated, Offline, and Under MinIsr Partitions:"
    )
    heads = ("PARTITION", "LEADER", "REPLICAS", "IN-SYNC", "OUT-OF-SYNC", "OFFLINE", "MIN-ISR")
    yield _partition_line("TOPIC", heads, width)
    for name, title in _TROUBLES.items():
        if name in partitions:
            yield title
            for one in partitions[name]:
                cells = [
                    one["partition"],
                    one["leader"],
                    *(_listed(one[each]) for each in ("replicas", "in-sync", "out-of-sync", "offline")),
                    one["min-isr"],
                ]
                yield _partition_line(one["topic"], cells, width)


def _partition_line(topic: str, cells: Sequence[object], width: int) -> str:
    rest = "".join(f"{cell!s:>{each}}" for cell, each in zip(cells, _PARTITION_WIDTHS, strict=True))
    return f"{topic:>{width}}{rest}"


def _listed(values: Sequence[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def tasks_text(body: Body) -> str:
    """User tasks, a row each."""
    heads = ("USER TASK ID", "CLIENT ADDRESS", "START TIME", "STATUS", "REQUEST URL")
    rows = [
        (
            one["UserTaskId"],
            one["ClientIdentity"],
            _time(int(one["StartMs"])),
            one["Status"],
            one["RequestURL"],
        )
        for one in body["userTasks"]
    ]
    least = (20, 20, 20, 10, 20)
    widths = [max(least[at], *(len(row[at]) for row in (heads, *rows))) + 2 for at in range(len(heads))]
    lines = [
        "".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) for row in (heads, *rows)
    ]
    return _joined(["", *lines])


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
