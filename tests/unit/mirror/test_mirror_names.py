"""Names of topics in two clusters, which of them are copied, and what the target's topics follow."""

from __future__ import annotations

import pytest

from ottla.client.admin.acls import Acl, Operation, PatternType, Permission, ResourceType
from ottla.client.admin.configs import Change, ConfigEntry, ConfigSource, ValueType
from ottla.client.admin.configs import Operation as ConfigOperation
from ottla.client.cluster_requests import TopicPartition
from ottla.config.errors import ConfigError
from ottla.config.settings import Settings
from ottla.config.sources import from_mapping
from ottla.mirror.core.following import (
    TopicRule,
    config_changes,
    followed_acls,
    new_topic_configs,
    topic_plan,
)
from ottla.mirror.core.gaps import Break, Loss, out_of_range
from ottla.mirror.core.policies import DefaultPolicy, Flow, IdentityPolicy, is_cycle, is_internal_topic
from ottla.mirror.settings import ClientKind, Side, access_of, client_properties, flow_of
from ottla.mirror.source import settings as source_settings
from ottla.mirror.source.settings import selections_of

BASE = {"source.cluster.alias": "a", "target.cluster.alias": "b"}


def given(**texts: str) -> Settings:
    names = {name.replace("__", "."): text for name, text in texts.items()}
    return Settings(source_settings.TABLE, from_mapping({**BASE, **names}))


def rule(**texts: str) -> TopicRule:
    settings = given(**texts)
    return TopicRule(flow_of(settings), selections_of(settings), settings[source_settings.HEARTBEATS])


@pytest.mark.parametrize(
    ("topic", "source", "upstream"),
    [
        ("orders", None, None),
        ("a.orders", "a", "orders"),
        ("a.b.orders", "a", "b.orders"),
        ("orders.", None, None),
        (".orders", "", "orders"),
        ("a..", None, None),
    ],
)
def test_default_names_tell_where_a_topic_comes_from(
    topic: str, source: str | None, upstream: str | None
) -> None:
    policy = DefaultPolicy()
    assert (policy.topic_source(topic), policy.upstream_topic(topic)) == (source, upstream)


@pytest.mark.parametrize(
    ("topic", "taken"),
    [
        ("orders", True),
        ("a.orders", True),  # of another cluster of that name, upstream of the source
        ("b.orders", False),  # has been on the target
        ("c.b.orders", False),
        ("__consumer_offsets", False),
        ("mm2-offset-syncs.b.internal", False),
        ("connect-offsets-internal", False),
        ("heartbeats", True),
        ("c.heartbeats", True),
        ("b.heartbeats", False),
        ("old.replica", False),
    ],
)
def test_what_is_copied_by_default(topic: str, taken: bool) -> None:
    assert rule().takes(topic) is taken


def test_selected_topics_and_heartbeats() -> None:
    some = rule(topics="orders-.*, payments", topics__exclude="orders-old")
    assert [
        some.takes(each) for each in ("orders-1", "payments", "payments2", "orders-old", "heartbeats")
    ] == [
        True,
        True,
        False,
        False,
        True,
    ]
    assert not rule(topics="orders", heartbeats__replication__enabled="false").takes("heartbeats")


def test_the_identity_policy_and_other_separators() -> None:
    identity = flow_of(
        given(replication__policy__class="org.apache.kafka.connect.mirror.IdentityReplicationPolicy")
    )
    assert isinstance(identity.policy, IdentityPolicy)
    assert [identity.remote_topic(each) for each in ("orders", "heartbeats")] == ["orders", "a.heartbeats"]
    assert not is_cycle(identity.policy, "orders", "b")
    other = flow_of(given(replication__policy__separator="_"))
    assert other.remote_topic("orders") == "a_orders"
    assert other.policy.offset_syncs_topic("b") == "mm2-offset-syncs_b_internal"
    assert is_internal_topic(other.policy, "a_checkpoints_internal")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("topics", "orders["),
        ("replication.policy.class", "com.example.Policy"),
        ("offset-syncs.topic.location", "elsewhere"),
        ("source.cluster.alias", ""),
        ("use.defaults.from", "nobody"),
    ],
)
def test_values_that_cannot_be_are_refused(name: str, text: str) -> None:
    with pytest.raises(ConfigError):
        Settings(source_settings.TABLE, from_mapping({**BASE, name: text}))


def test_clients_have_the_properties_of_their_kind_and_side() -> None:
    config = {
        "source.cluster.bootstrap.servers": "one:9092",
        "source.cluster.alias": "a",
        "consumer.fetch.max.bytes": "1",
        "source.consumer.fetch.max.bytes": "2",
        "consumer.override.group.id": "not here",
        "target.consumer.isolation.level": "not here",
    }
    found = client_properties(config, Side.SOURCE, ClientKind.CONSUMER)
    assert found == {"bootstrap.servers": "one:9092", "fetch.max.bytes": "2"}
    assert access_of(config, Side.SOURCE, ClientKind.CONSUMER, "me").bootstrap == "one:9092"
    with pytest.raises(ConfigError, match=r"target\.cluster\.bootstrap\.servers"):
        access_of(config, Side.TARGET, ClientKind.ADMIN, "me")


def test_topics_are_made_and_grown_but_never_shrunk() -> None:
    flow = Flow("a", "b", DefaultPolicy())
    plan = topic_plan(
        flow, {"new": 2, "more": 3, "less": 1, "same": 4}, {"a.more": 1, "a.less": 5, "a.same": 4}
    )
    assert plan.create == {"new": 2}
    assert plan.grow == {"a.more": 3}


def entry(name: str, value: str | None, source: ConfigSource = ConfigSource.TOPIC) -> ConfigEntry:
    return ConfigEntry(name, value, source, False, False, (), ValueType.STRING, None)


def test_settings_follow_without_those_that_are_excluded() -> None:
    follows = rule().selections.follows
    source = [
        entry("retention.ms", "1"),
        entry("cleanup.policy", "delete", ConfigSource.DEFAULT),
        entry("min.insync.replicas", "2"),
        entry("segment.bytes", "7", ConfigSource.SERVER_PROPERTIES),
    ]
    assert new_topic_configs(source, follows, source_defaults=False) == {"retention.ms": "1"}
    target = [
        entry("retention.ms", "2"),
        entry("cleanup.policy", "compact"),
        entry("min.insync.replicas", "1"),
    ]
    assert config_changes(source, target, follows, source_defaults=False) == [
        Change("retention.ms", ConfigOperation.SET, "1"),
        Change("cleanup.policy", ConfigOperation.DELETE),
    ]
    assert config_changes(source, target, follows, source_defaults=True) == [
        Change("retention.ms", ConfigOperation.SET, "1"),
        Change("cleanup.policy", ConfigOperation.SET, "delete"),
    ]
    done = [entry("retention.ms", "1"), entry("cleanup.policy", "delete", ConfigSource.DEFAULT)]
    assert config_changes(source, done, follows, source_defaults=False) == []


def acl(
    topic: str, operation: Operation, permission: Permission = Permission.ALLOW, **more: PatternType
) -> Acl:
    pattern = more.get("pattern", PatternType.LITERAL)
    return Acl(ResourceType.TOPIC, topic, pattern, "User:ann", "*", operation, permission)


def test_rights_follow_but_none_to_write() -> None:
    acls = [
        acl("orders", Operation.READ),
        acl("orders", Operation.WRITE),
        acl("orders", Operation.WRITE, Permission.DENY),
        acl("orders", Operation.ALL),
        acl("orders", Operation.ALL, Permission.DENY),
        acl("ord", Operation.READ, pattern=PatternType.PREFIXED),
        acl("__secret", Operation.READ),
    ]
    assert followed_acls(acls, rule()) == [
        acl("a.orders", Operation.READ),
        acl("a.orders", Operation.WRITE, Permission.DENY),
        acl("a.orders", Operation.READ),
        acl("a.orders", Operation.ALL, Permission.DENY),
    ]


def test_positions_out_of_a_log_are_breaks_with_numbers() -> None:
    place = TopicPartition("orders", 3)
    gone = out_of_range(place, 100, 170, 400)
    assert gone is not None and (gone.loss, gone.first, gone.last, gone.goes_on) == (
        Loss.OVERTAKEN,
        100,
        169,
        170,
    )
    assert gone.size == 70
    cut = out_of_range(place, 500, 170, 400)
    assert cut == Break(place, Loss.TRUNCATED, 400, 499, 400)
    assert "orders-3: the source has lost offsets 400 to 499 (100), which were copied" in str(cut)
    assert out_of_range(place, 200, 170, 400) is None
