"""A fault for every kind of finding of the doctor: a change of a sound snapshot, and the finding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ottla.client.access import Address
from ottla.client.cluster_requests import TopicPartition
from ottla.client.groups.model import GroupType
from ottla.doctor.findings import Severity
from ottla.doctor.snapshot import (
    AclView,
    Certificate,
    ClockReading,
    Contact,
    FirstRecord,
    GroupSample,
    Growth,
    HangingTransaction,
    MetricSamples,
    Move,
    NodeVersions,
    Offsets,
    OpenTransaction,
    QuorumView,
    QuotaView,
    Replica,
    TokenView,
)
from support.doctor.drawn import (
    BROKER_VIEWS,
    BROKERS,
    DAY_MS,
    GIB,
    GROUP_PLACE,
    HOUR_MS,
    NOW_MS,
    PLACES,
    Change,
    both,
    directory,
    with_broker,
    with_broker_settings,
    with_directory,
    with_group,
    with_listener,
    with_part,
    with_partitions,
    with_topic_settings,
    without_broker,
)

CRITICAL, WARNING, NOTE = Severity.CRITICAL, Severity.WARNING, Severity.NOTE


@dataclass(frozen=True, slots=True)
class Fault:
    """A change of a sound snapshot, and the finding that it is to give.

    subjects: some of the finding's. says: words of its sentence. command: how its command begins.
    """

    check: str
    change: Change
    severity: Severity
    subjects: Sequence[str]
    says: str = ""
    command: str | None = ""


def orders(index: int) -> str:
    """A partition of the topic `orders`."""
    return f"orders-{index}"


_OLD = NOW_MS - HOUR_MS
_LEADERLESS = with_partitions("orders", lambda one: replace(one, leader=-1))
_IN_SYNC_ONE = with_partitions("payments", lambda one: replace(one, isr=(one.leader,)))
_RESTLESS = tuple(GroupSample("Stable", epoch, frozenset({"member"})) for epoch in (3, 4, 5))
_EMPTY = (GroupSample("Empty", 3, frozenset()),)
_OLD_VERSIONS = NodeVersions({0: (0, 12)}, {"metadata.version": (7, 30)}, {"metadata.version": 30})
_NEW_VERSIONS = NodeVersions({0: (0, 13)}, {"metadata.version": (7, 31)}, {"metadata.version": 30})
_ENDED = Certificate("CN=broker-1", NOW_MS - 9 * DAY_MS, NOW_MS - DAY_MS)
_ENDING = Certificate("CN=broker-1", NOW_MS - 9 * DAY_MS, NOW_MS + 9 * DAY_MS)
_EARLY = Certificate("CN=broker-1", NOW_MS + DAY_MS, NOW_MS + 9 * DAY_MS)
_TRANSACTION = OpenTransaction("nightly", 7, "Ongoing", 60_000, _OLD, (GROUP_PLACE,))
_STARTED = Growth(3.0, dict.fromkeys(BROKERS, (directory(),)), {GROUP_PLACE: Move((3,), ())})

FAULTS: tuple[Fault, ...] = (
    # replicas
    Fault(
        "offline-partitions",
        _LEADERLESS,
        CRITICAL,
        [orders(0), orders(5)],
        "no replica in sync",
        "ottla partition elect unclean --topic orders",
    ),
    Fault(
        "offline-partitions",
        both(_LEADERLESS, *(with_broker(node, fenced=True) for node in BROKERS)),
        CRITICAL,
        [orders(0)],
        "none of their brokers is there",
        None,
    ),
    Fault(
        "under-min-isr",
        _IN_SYNC_ONE,
        CRITICAL,
        ["payments-0"],
        "refused",
        "ottla topic alter payments --config min.insync.replicas=1",
    ),
    Fault(
        "under-min-isr",
        with_topic_settings("payments", min_insync_replicas="4"),
        CRITICAL,
        ["payments-2"],
        "can never be written",
        "ottla topic alter payments --delete-config min.insync.replicas",
    ),
    Fault(
        "missing-brokers",
        without_broker(3),
        CRITICAL,
        ["3"],
        "18 replicas on broker 3",
        "ottla partition reassign --from 3",
    ),
    Fault("under-replicated", _IN_SYNC_ONE, WARNING, ["payments-0"], "replicas behind", None),
    Fault(
        "under-replicated",
        both(with_broker(2, fenced=True), with_partitions("orders", lambda one: replace(one, isr=(1, 3)))),
        WARNING,
        [orders(1)],
        "broker 2 not there",
        "ottla partition reassign --from 2",
    ),
    Fault(
        "at-min-isr",
        with_partitions("payments", lambda one: replace(one, isr=one.isr[:2])),
        WARNING,
        ["payments-1"],
        "with one broker less",
        "ottla topic describe --at-min-isr",
    ),
    Fault(
        "min-isr-equals-replicas",
        with_topic_settings("payments", min_insync_replicas="3"),
        WARNING,
        ["payments"],
        "a restart of one broker",
        "ottla topic alter payments --config min.insync.replicas=2",
    ),
    Fault(
        "single-replica",
        with_partitions("orders", lambda one: replace(one, replicas=one.replicas[:1], isr=one.isr[:1])),
        WARNING,
        ["orders"],
        "there are 3 brokers",
        "ottla partition reassign --topic orders --replication-factor 3",
    ),
    Fault(
        "internal-topics",
        with_partitions(
            "__consumer_offsets", lambda one: replace(one, replicas=one.replicas[:1], isr=one.isr[:1])
        ),
        WARNING,
        ["__consumer_offsets"],
        "fewer than 3 replicas",
        "ottla partition reassign --topic __consumer_offsets --replication-factor 3",
    ),
    Fault(
        "racks",
        both(
            with_broker(2, rack="rack-1"),
            with_partitions("payments", lambda one: replace(one, replicas=(1, 2), isr=(1, 2), leader=1)),
        ),
        WARNING,
        ["payments-0", "payments-2"],
        "3 partitions with replicas in fewer racks",
        "ottla partition reassign --topic payments",
    ),
    Fault("racks", with_broker(2, rack=None), WARNING, ["2"], "without broker.rack", None),
    # brokers
    Fault(
        "silent-brokers",
        with_part("contacts", (Contact(BROKER_VIEWS[2], "it did not answer in time"),)),
        CRITICAL,
        ["2"],
        "broker 2 at broker-2:9092: it did not answer in time",
        "ottla config describe broker 2",
    ),
    Fault(
        "fenced-brokers",
        with_broker(2, fenced=True),
        WARNING,
        ["2"],
        "fenced",
        "ottla partition reassign --from 2",
    ),
    Fault(
        "fenced-brokers",
        both(with_broker(2, fenced=True), with_part("topics", {})),
        WARNING,
        ["2"],
        "fenced",
        "ottla quorum unregister --broker 2",
    ),
    Fault(
        "unknown-settings",
        with_broker_settings(1, unknown=True, num_particions="3"),
        WARNING,
        ["num.particions"],
        "1 setting that the brokers do not know",
        "ottla config describe broker 1",
    ),
    Fault(
        "settings-differ",
        with_broker_settings(2, default_replication_factor="1"),
        WARNING,
        ["default.replication.factor"],
        "default.replication.factor (3 on 1, 3; 1 on 2)",
        "ottla config describe broker 1 2 --key default.replication.factor --all",
    ),
    Fault("settings-differ", with_broker_settings(2, num_io_threads="4"), NOTE, ["num.io.threads"], "", None),
    Fault(
        "versions-differ",
        with_part("versions", {1: _OLD_VERSIONS, 2: _NEW_VERSIONS, 3: _NEW_VERSIONS}),
        WARNING,
        ["1"],
        "2 different versions",
        None,
    ),
    Fault(
        "metadata-version",
        with_part("versions", dict.fromkeys(BROKERS, _NEW_VERSIONS)),
        NOTE,
        ["metadata.version"],
        "is 30, though all brokers support 31",
        "ottla quorum upgrade --metadata-version 31",
    ),
    # quorum
    Fault("quorum-leader", with_part("quorum", QuorumView(-1, (), ())), CRITICAL, [], "no leader", None),
    Fault(
        "quorum-behind",
        with_part(
            "quorum",
            QuorumView(
                1, (Replica(1, 500, NOW_MS), Replica(2, 10, NOW_MS - 60_000), Replica(3, 500, NOW_MS)), ()
            ),
        ),
        WARNING,
        ["2"],
        "490 records and 60 s behind; no further controller may fail",
        "ottla quorum remove --node 2",
    ),
    Fault(
        "quorum-behind",
        with_part("quorum", QuorumView(1, (Replica(1, 500, NOW_MS), Replica(2, 500, NOW_MS - 60_000)), ())),
        CRITICAL,
        ["2"],
        "silent for 60 s",
        "ottla quorum remove --node 2",
    ),
    Fault(
        "brokers-behind",
        with_part("quorum", QuorumView(1, (Replica(1, 500, NOW_MS),), (Replica(2, 10, NOW_MS - 60_000),))),
        WARNING,
        ["2"],
        "old metadata",
        "ottla quorum status",
    ),
    Fault(
        "quorum-even",
        with_part("quorum", QuorumView(1, tuple(Replica(node, 1, NOW_MS) for node in (1, 2, 3, 4)), ())),
        WARNING,
        ["4"],
        "even number of voters, 4",
        "ottla quorum remove --node 4",
    ),
    Fault(
        "quorum-single",
        with_part("quorum", QuorumView(1, (Replica(1, 500, NOW_MS),), ())),
        WARNING,
        ["1"],
        "one controller for 3 brokers",
        "ottla quorum add",
    ),
    # disks
    Fault(
        "log-directories-offline",
        with_directory(2, error="KAFKA_STORAGE_ERROR"),
        CRITICAL,
        ["broker 2 /data (KAFKA_STORAGE_ERROR)"],
        "offline",
        "ottla partition reassign --from 2",
    ),
    Fault(
        "disk-full",
        with_directory(2, usable_bytes=10 * GIB),
        CRITICAL,
        ["broker 2 /data"],
        "10.0 GiB (1%) left",
        "ottla topic alter orders --config retention.ms=",
    ),
    Fault("disk-full", with_directory(2, usable_bytes=100 * GIB), WARNING, ["broker 2 /data"], "(10%) left"),
    Fault(
        "disk-filling",
        both(
            with_directory(2, usable_bytes=200 * GIB, sizes=dict.fromkeys(PLACES, 20 * GIB)),
            with_part("first_records", dict.fromkeys(PLACES, FirstRecord(NOW_MS - DAY_MS))),
        ),
        WARNING,
        ["broker 2 /data"],
        "as its logs grew",
        "ottla topic alter orders --config retention.ms=",
    ),
    Fault(
        "disk-filling",
        both(
            with_directory(2, usable_bytes=20 * GIB, sizes=dict.fromkeys(PLACES, 20 * GIB)),
            with_part("first_records", dict.fromkeys(PLACES, FirstRecord(NOW_MS - DAY_MS))),
        ),
        CRITICAL,
        ["broker 2 /data"],
        "broker 2 /data in 3 hours",
    ),
    Fault(
        "disk-filling",
        with_part("growth", Growth(3.0, {1: (directory(600 << 20),)}, {})),
        WARNING,
        ["broker 1 /data"],
        "in the last 3.0 seconds",
    ),
    Fault(
        "log-directories-differ",
        with_part("directories", {1: (directory(),), 2: (directory(), replace(directory(), path="/more"))}),
        NOTE,
        ["1", "2"],
        "broker 1 has 1, broker 2 has 2",
    ),
    Fault("log-directories-differ", with_directory(2, total_bytes=1 << 42), NOTE, ["2"], "different sizes"),
    # balance and moves
    Fault(
        "leaders-skewed",
        with_partitions("orders", lambda one: replace(one, leader=1)),
        WARNING,
        ["1"],
        "broker 1 leads",
        "ottla partition elect preferred",
    ),
    Fault(
        "leaders-not-preferred",
        with_partitions("orders", lambda one: replace(one, leader=one.replicas[1])),
        WARNING,
        [orders(0)],
        "6 partitions of 18",
        "ottla partition elect preferred",
    ),
    Fault(
        "disks-skewed",
        with_directory(2, sizes=dict.fromkeys(PLACES, 10 * GIB)),
        WARNING,
        ["2"],
        "broker 2 has 180.0 GiB",
        "ottla partition reassign --topic",
    ),
    Fault(
        "partitions-skewed",
        with_directory(
            2,
            sizes={
                place: GIB if place.partition else 90 * GIB for place in PLACES if place.topic == "orders"
            },
        ),
        WARNING,
        ["orders-0"],
        "90.0 GiB",
        "ottla topic describe orders",
    ),
    Fault("too-many-replicas", lambda snapshot: snapshot, WARNING, ["1"], "", "ottla topic list"),
    Fault(
        "unused-brokers",
        both(
            *(
                with_partitions(name, lambda one: replace(one, replicas=(1, 2), isr=(1, 2), leader=1))
                for name in ("orders", "payments", "__consumer_offsets", "__transaction_state")
            )
        ),
        NOTE,
        ["3"],
        "a new broker",
        "ottla partition reassign --topic orders",
    ),
    Fault(
        "reassignments-stuck",
        both(with_broker(3, fenced=True), with_part("moves", {GROUP_PLACE: Move((3,), (1,))})),
        WARNING,
        ["orders-0"],
        "to broker 3, which is not there",
        "ottla partition reassign --cancel",
    ),
    Fault(
        "reassignments-stuck",
        both(with_part("moves", {GROUP_PLACE: Move((3,), (1,))}), with_part("growth", _STARTED)),
        WARNING,
        ["orders-0"],
        "did not get on in 3.0 seconds",
        "ottla partition reassign --cancel",
    ),
    Fault(
        "throttles-left",
        with_topic_settings("orders", leader_replication_throttled_replicas="0:1"),
        WARNING,
        ["orders"],
        "a left-over",
        "ottla topic alter orders --delete-config leader.replication.throttled.replicas",
    ),
    Fault(
        "throttles-left",
        with_broker_settings(2, leader_replication_throttled_rate="1000"),
        WARNING,
        ["2"],
        "broker 2",
        "ottla config unset broker 2 leader.replication.throttled.rate",
    ),
    # topics
    Fault(
        "unclean-election",
        with_topic_settings("orders", unclean_leader_election_enable="true"),
        WARNING,
        ["orders"],
        "lost without a word",
        "ottla topic alter orders --config unclean.leader.election.enable=false",
    ),
    Fault(
        "unclean-election",
        with_topic_settings("orders", "ALL_BROKERS", unclean_leader_election_enable="true"),
        WARNING,
        ["orders"],
        "",
        "ottla config set broker default unclean.leader.election.enable=false",
    ),
    Fault(
        "retention-unbounded",
        with_topic_settings("orders", retention_ms="-1"),
        WARNING,
        ["orders"],
        "nothing is ever deleted",
        "ottla topic alter orders --config retention.ms=",
    ),
    Fault(
        "tiny-segments",
        with_topic_settings("orders", segment_bytes="1024"),
        WARNING,
        ["orders"],
        "segment.bytes below 1.0 MiB",
        "ottla topic alter orders --delete-config segment.bytes",
    ),
    Fault(
        "tiny-segments",
        with_topic_settings("orders", segment_ms="1000"),
        WARNING,
        ["orders"],
        "segment.ms below 60 s",
        "ottla topic alter orders --delete-config segment.ms",
    ),
    Fault(
        "compaction-stuck",
        with_broker_settings(2, log_cleaner_enable="false"),
        WARNING,
        ["2"],
        "log.cleaner.enable=false",
        None,
    ),
    Fault(
        "compaction-stuck",
        with_topic_settings("orders", cleanup_policy="compact", min_cleanable_dirty_ratio="1.0"),
        WARNING,
        ["orders"],
        "hardly ever compacted",
        "ottla topic alter orders --delete-config min.cleanable.dirty.ratio",
    ),
    Fault(
        "compaction-stuck",
        with_directory(1, sizes={TopicPartition("__consumer_offsets", 0): 5 * GIB}),
        WARNING,
        ["__consumer_offsets-0"],
        "has 5.0 GiB",
        "ottla topic describe __consumer_offsets",
    ),
    Fault(
        "message-sizes",
        with_topic_settings("orders", max_message_bytes="10485760"),
        WARNING,
        ["orders"],
        "10.0 MiB",
        "ottla topic alter orders --config max.message.bytes=1048576",
    ),
    Fault(
        "auto-create-topics",
        with_broker_settings(auto_create_topics_enable="true", default_replication_factor="1"),
        WARNING,
        ["1", "2", "3"],
        "mistyped",
        "ottla topic create",
    ),
    Fault(
        "auto-create-topics", with_broker_settings(auto_create_topics_enable="true"), NOTE, ["1"], "mistyped"
    ),
    # groups
    Fault(
        "group-records-lost",
        with_part("offsets", {GROUP_PLACE: Offsets(1_500, 2_000, 2_000)}),
        CRITICAL,
        ["readers"],
        "readers (500 offsets)",
        "ottla group reset readers --to earliest",
    ),
    Fault(
        "group-records-lost",
        with_part("offsets", {GROUP_PLACE: Offsets(0, 10, 10)}),
        WARNING,
        ["readers"],
        "beyond the end of orders-0",
        "ottla group reset readers --to latest",
    ),
    Fault(
        "group-records-due",
        with_group(offsets={GROUP_PLACE: 5}),
        WARNING,
        ["readers"],
        "within 24 hours",
        "ottla topic alter orders --config retention.ms=-1",
    ),
    Fault(
        "group-records-due",
        both(
            with_group(offsets={GROUP_PLACE: 5}),
            lambda snapshot: replace(
                snapshot,
                due=replace(
                    snapshot.due,
                    value=replace(
                        snapshot.due.get(), horizons={4.0: {GROUP_PLACE: 9}, 24.0: {GROUP_PLACE: 90}}
                    ),
                ),
            ),
        ),
        CRITICAL,
        ["readers"],
        "within 4 hours",
    ),
    Fault(
        "group-records-full",
        both(
            with_topic_settings("orders", retention_bytes=str(100 << 20)),
            with_group(offsets={GROUP_PLACE: 50}),
        ),
        WARNING,
        ["readers"],
        "nearly as much to read",
        "ottla topic alter orders --config retention.bytes=-1",
    ),
    Fault(
        "group-rebalancing",
        with_group(samples=_RESTLESS),
        WARNING,
        ["readers"],
        "readers (Stable, 1 member)",
        "ottla group describe readers --members",
    ),
    Fault(
        "group-rebalancing",
        with_group(
            type=GroupType.CLASSIC,
            samples=tuple(GroupSample("PreparingRebalance", None, frozenset({"a"})) for _ in range(3)),
        ),
        WARNING,
        ["readers"],
        "PreparingRebalance",
    ),
    Fault(
        "group-abandoned",
        with_group(samples=_EMPTY, assigned=frozenset(), offsets={GROUP_PLACE: 400}),
        WARNING,
        ["readers"],
        "readers (600)",
        "ottla group delete readers",
    ),
    Fault(
        "group-no-commits",
        with_group(offsets={}),
        WARNING,
        ["readers"],
        "without a committed offset",
        "ottla group describe readers --members",
    ),
    Fault(
        "group-idle-members",
        with_group(idle_members=2),
        NOTE,
        ["readers"],
        "readers (2 members)",
        "ottla topic alter orders --partitions 3",
    ),
    Fault(
        "group-classic",
        with_group(type=GroupType.CLASSIC, samples=(GroupSample("Stable", None, frozenset({"a", "b"})),)),
        NOTE,
        ["readers"],
        "classic protocol",
        "ottla group describe readers --members",
    ),
    # transactions
    Fault(
        "transactions-hanging",
        with_part("hanging", (HangingTransaction(GROUP_PLACE, 71, 42, _OLD),)),
        CRITICAL,
        ["orders-0"],
        "up to 60 minutes old",
        "ottla txn abort --topic orders --partition 0 --start-offset 42",
    ),
    Fault(
        "transactions-long",
        with_part("transactions", (_TRANSACTION,)),
        WARNING,
        ["nightly"],
        "nightly (60 minutes)",
        "ottla txn force-terminate nightly",
    ),
    Fault(
        "producer-ids",
        with_part("producers", {GROUP_PLACE: 90_000}),
        WARNING,
        ["orders-0"],
        "orders-0 (90,000)",
        "ottla config set broker default producer.id.expiration.ms=3600000",
    ),
    # security
    Fault(
        "certificates",
        with_listener(certificate=_ENDED),
        CRITICAL,
        ["broker 1 CLIENTS://broker-1:9091"],
        "has ended",
        "ottla config set broker 1 listener.name.clients.ssl.keystore.location=FILE",
    ),
    Fault(
        "certificates",
        with_listener(certificate=_EARLY),
        CRITICAL,
        ["broker 1 CLIENTS://broker-1:9091"],
        "does not hold yet",
    ),
    Fault(
        "certificates",
        with_listener(certificate=_ENDING),
        WARNING,
        ["broker 1 CLIENTS://broker-1:9091"],
        "ends soon",
    ),
    Fault(
        "anonymous-super-user",
        with_listener(protocol="PLAINTEXT", anonymous=frozenset({"describe", "alter"})),
        CRITICAL,
        ["broker 1 CLIENTS://broker-1:9091"],
        "without a login may change the cluster",
        "ottla acl delete --cluster --principal ANONYMOUS",
    ),
    Fault(
        "anonymous-super-user",
        with_broker_settings(3, unknown=True, **{"allow.everyone.if.no.acl.found": "true"}),
        NOTE,
        ["3"],
        "does not tell the value",
        "ottla acl create",
    ),
    Fault(
        "listeners-in-the-clear",
        with_listener(protocol="SASL_PLAINTEXT", certificate=None),
        WARNING,
        ["broker 1 CLIENTS://broker-1:9091"],
        "passwords",
        "ottla certs create",
    ),
    Fault(
        "no-authorizer",
        with_broker_settings(2, **{"authorizer.class.name": ""}),
        WARNING,
        ["2"],
        "without an authorizer",
        "ottla acl create",
    ),
    Fault(
        "acls-for-everyone",
        with_part("acls", (AclView("User:*", "*", "write", "topic", "orders"),)),
        WARNING,
        ["write topic orders"],
        "every user",
        "ottla acl delete --topic orders --principal 'User:*' --operation write --permission allow",
    ),
    Fault(
        "tokens-ending",
        with_part("tokens", (TokenView("t1", "User:app", NOW_MS + HOUR_MS, NOW_MS + DAY_MS),)),
        WARNING,
        ["t1"],
        "t1 of User:app",
        "ottla token renew -",
    ),
    Fault(
        "tokens-ending",
        with_part("tokens", (TokenView("t1", "User:app", NOW_MS + HOUR_MS, NOW_MS + HOUR_MS),)),
        WARNING,
        ["t1"],
        "ends soon",
        "ottla token create",
    ),
    Fault(
        "no-quotas",
        with_part("quotas", ()),
        NOTE,
        ["default user"],
        "one client",
        "ottla quota alter --default-user",
    ),
    Fault("no-quotas", with_part("quotas", (QuotaView({"user": "alice"}, {}),)), NOTE, ["default user"]),
    # clients
    Fault(
        "advertised-loopback",
        with_broker(2, host="localhost"),
        CRITICAL,
        ["2"],
        "though clients come in at broker-1:9091",
        "ottla config describe broker 2 --key advertised.listeners --all",
    ),
    Fault(
        "advertised-loopback",
        both(
            with_broker(2, host="127.0.0.1"),
            lambda snapshot: replace(snapshot, bootstrap=(Address("127.0.0.1", 1),)),
        ),
        CRITICAL,
        ["2"],
        "though broker 1, 3 runs on another machine",
    ),
    Fault(
        "advertised-unreachable",
        with_listener(problem="Connection refused"),
        CRITICAL,
        ["broker 1 CLIENTS://broker-1:9091"],
        "Connection refused",
        "ottla config describe broker 1",
    ),
    Fault(
        "advertised-unreachable",
        with_listener(problem="Connection refused", ours=False),
        NOTE,
        ["broker 1 CLIENTS://broker-1:9091"],
        "which may be meant",
    ),
    Fault(
        "clock-skew",
        with_part("clocks", (ClockReading("broker 2", -9_000.0, 20.0),)),
        WARNING,
        ["broker 2"],
        "9.0 seconds behind",
        None,
    ),
    Fault(
        "weak-acks",
        with_part("metrics", MetricSamples((("page", "ottla_produced_batches_total", {"acks": "1"}, 7.0),))),
        WARNING,
        ["acks=1"],
        "acks=1: 7 of 7",
        None,
    ),
)
