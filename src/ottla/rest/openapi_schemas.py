"""The schemas of the OpenAPI document: bodies of requests and answers of both APIs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import EnumType
from typing import Any, Final

from ottla.rest.admin.model import (
    AclOperation,
    AclPatternType,
    AclPermission,
    AlterOperation,
    ConfigSource,
    ResourceType,
)
from ottla.web.openapi import ref

Schema = dict[str, Any]

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
ANY: Final[Schema] = {"description": "Any JSON"}
MAYBE_TEXT: Final[Schema] = {"type": ["string", "null"]}
MAYBE_NUMBER: Final[Schema] = {"type": ["integer", "null"]}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _object(fields: Mapping[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    required = [name for name in fields if name not in optional]
    schema: Schema = {"type": "object", "properties": dict(fields)}
    return {**schema, "required": required} if required else schema


def _request(fields: Mapping[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    return {**_object(fields, optional), "additionalProperties": False}


def _one_of(kind: EnumType, *without: str) -> Schema:
    return {"type": "string", "enum": [name for name in kind.__members__ if name not in without]}


LINK: Final = ref("Relationship")


def _resource(kind: str, fields: Mapping[str, Schema], optional: tuple[str, ...] = ()) -> dict[str, Schema]:
    """The schemas of a resource of API v3 and of its list."""
    listing = {
        "kind": {"const": f"{kind}List"},
        "metadata": ref("ListMetadata"),
        "data": _list(ref(kind)),
    }
    return {**_single(kind, fields, optional), f"{kind}List": _object(listing)}


def _single(kind: str, fields: Mapping[str, Schema], optional: tuple[str, ...] = ()) -> dict[str, Schema]:
    """The schema of a resource of API v3 that has no list."""
    common = {"kind": {"const": kind}, "metadata": ref("ResourceMetadata"), "cluster_id": TEXT}
    return {kind: _object({**common, **fields}, optional)}


_CONFIG: Final = {
    "name": TEXT,
    "value": MAYBE_TEXT,
    "is_default": FLAG,
    "is_read_only": FLAG,
    "is_sensitive": FLAG,
    "source": _one_of(ConfigSource),
    "synonyms": _list(ref("ConfigSynonym")),
}
_OF_PARTITION: Final = {"topic_name": TEXT, "partition_id": NUMBER}
_OF_CONSUMER: Final = {"consumer_group_id": TEXT, "consumer_id": TEXT}
_ACL: Final = {
    "resource_type": _one_of(ResourceType),
    "resource_name": TEXT,
    "pattern_type": _one_of(AclPatternType),
    "principal": TEXT,
    "host": TEXT,
    "operation": _one_of(AclOperation),
    "permission": _one_of(AclPermission),
}
_FOR_FILTERS: Final = ("UNKNOWN", "ANY", "MATCH")
_NEW_ACL: Final = {
    **_ACL,
    "resource_type": _one_of(ResourceType, *_FOR_FILTERS),
    "pattern_type": _one_of(AclPatternType, *_FOR_FILTERS),
    "operation": _one_of(AclOperation, *_FOR_FILTERS),
    "permission": _one_of(AclPermission, *_FOR_FILTERS),
}
_PRODUCED: Final = {
    "error_code": NUMBER,
    "cluster_id": TEXT,
    "topic_name": TEXT,
    "partition_id": NUMBER,
    "offset": NUMBER,
    "timestamp": MAYBE_TEXT,
    "key": ref("ProducedData"),
    "value": ref("ProducedData"),
}
_RECORD: Final = {
    "partition_id": MAYBE_NUMBER,
    "headers": _list(
        _request({"name": TEXT, "value": {**MAYBE_TEXT, "contentEncoding": "base64"}}, ("value",))
    ),
    "key": ref("RecordData"),
    "value": ref("RecordData"),
    "timestamp": {**MAYBE_TEXT, "description": "ISO 8601"},
}
_TOPIC_PARTITION: Final = {"topic": TEXT, "partition": NUMBER}
_OFFSET: Final = {**_TOPIC_PARTITION, "offset": NUMBER, "metadata": MAYBE_TEXT}

V3: Final[Mapping[str, Schema]] = {
    "Error": _object({"error_code": NUMBER, "message": MAYBE_TEXT}),
    "Relationship": _object({"related": TEXT}),
    "ResourceMetadata": _object({"self": TEXT, "resource_name": MAYBE_TEXT}, ("resource_name",)),
    "ListMetadata": _object({"self": TEXT, "next": MAYBE_TEXT}),
    **_resource(
        "KafkaCluster",
        {
            "controller": LINK,
            "acls": LINK,
            "brokers": LINK,
            "broker_configs": LINK,
            "consumer_groups": LINK,
            "topics": LINK,
            "partition_reassignments": LINK,
        },
        ("controller",),
    ),
    **_resource(
        "KafkaBroker",
        {
            "broker_id": NUMBER,
            "host": MAYBE_TEXT,
            "port": MAYBE_NUMBER,
            "rack": MAYBE_TEXT,
            "configs": LINK,
            "partition_replicas": LINK,
        },
    ),
    **_resource(
        "KafkaTopic",
        {
            "topic_name": TEXT,
            "is_internal": FLAG,
            "replication_factor": NUMBER,
            "partitions_count": NUMBER,
            "partitions": LINK,
            "configs": LINK,
            "partition_reassignments": LINK,
            "authorized_operations": _list(_one_of(AclOperation, "ANY")),
        },
        ("authorized_operations",),
    ),
    **_resource(
        "KafkaPartition",
        {**_OF_PARTITION, "leader": LINK, "replicas": LINK, "reassignment": LINK},
        ("leader",),
    ),
    **_single(
        "KafkaPartitionWithOffsets",
        {**_OF_PARTITION, "earliest_offset": NUMBER, "latest_offset": NUMBER},
        ("earliest_offset", "latest_offset"),
    ),
    **_resource(
        "KafkaReplica",
        {**_OF_PARTITION, "broker_id": NUMBER, "is_leader": FLAG, "is_in_sync": FLAG, "broker": LINK},
    ),
    **_resource(
        "KafkaReassignment",
        {
            **_OF_PARTITION,
            "adding_replicas": _list(NUMBER),
            "removing_replicas": _list(NUMBER),
            "replicas": LINK,
        },
    ),
    "ConfigSynonym": _object({"name": TEXT, "value": MAYBE_TEXT, "source": _one_of(ConfigSource)}),
    **_resource("KafkaTopicConfig", {"topic_name": TEXT, **_CONFIG}),
    **_resource("KafkaBrokerConfig", {"broker_id": NUMBER, **_CONFIG}),
    **_resource("KafkaClusterConfig", {"config_type": {"const": "BROKER"}, **_CONFIG}),
    **_resource("KafkaAcl", _ACL),
    "DeletedAcls": _object({"data": _list(ref("KafkaAcl"))}),
    **_resource(
        "KafkaConsumerGroup",
        {
            "consumer_group_id": TEXT,
            "is_simple": FLAG,
            "partition_assignor": TEXT,
            "state": TEXT,
            "type": TEXT,
            "coordinator": LINK,
            "consumers": LINK,
            "lag_summary": LINK,
        },
        ("coordinator",),
    ),
    **_resource(
        "KafkaConsumer",
        {**_OF_CONSUMER, "instance_id": MAYBE_TEXT, "client_id": TEXT, "assignments": LINK},
    ),
    **_resource("KafkaConsumerAssignment", {**_OF_CONSUMER, **_OF_PARTITION, "partition": LINK, "lag": LINK}),
    **_resource(
        "KafkaConsumerLag",
        {
            **_OF_CONSUMER,
            **_OF_PARTITION,
            "current_offset": NUMBER,
            "log_end_offset": NUMBER,
            "lag": NUMBER,
            "instance_id": MAYBE_TEXT,
            "client_id": TEXT,
        },
    ),
    **_single(
        "KafkaConsumerGroupLagSummary",
        {
            "consumer_group_id": TEXT,
            "max_lag_consumer_id": TEXT,
            "max_lag_instance_id": MAYBE_TEXT,
            "max_lag_client_id": TEXT,
            "max_lag_topic_name": TEXT,
            "max_lag_partition_id": NUMBER,
            "max_lag": NUMBER,
            "total_lag": NUMBER,
            "max_lag_consumer": LINK,
            "max_lag_partition": LINK,
        },
    ),
    "CreateTopicRequest": _request(
        {
            "topic_name": TEXT,
            "partitions_count": MAYBE_NUMBER,
            "replication_factor": MAYBE_NUMBER,
            "replicas_assignments": {
                "oneOf": [
                    _list(_request({"partition_id": NUMBER, "broker_ids": _list(NUMBER)})),
                    {"type": "object", "additionalProperties": _list(NUMBER)},
                ]
            },
            "configs": _list(_request({"name": TEXT, "value": MAYBE_TEXT}, ("value",))),
            "validate_only": FLAG,
        },
        ("partitions_count", "replication_factor", "replicas_assignments", "configs", "validate_only"),
    ),
    "UpdatePartitionCountRequest": _request({"partitions_count": NUMBER}),
    "UpdateConfigRequest": _request({"value": MAYBE_TEXT}, ("value",)),
    "AlterConfigBatchRequest": _request(
        {
            "data": _list(
                _request(
                    {"name": TEXT, "value": MAYBE_TEXT, "operation": _one_of(AlterOperation)},
                    ("value", "operation"),
                )
            ),
            "validate_only": FLAG,
        },
        ("validate_only",),
    ),
    "CreateAclRequest": _request(_NEW_ACL),
    "CreateAclsRequest": _request({"data": _list(ref("CreateAclRequest"))}),
    "RecordData": {
        **_request(
            {
                "type": {
                    "type": "string",
                    "enum": ["BINARY", "JSON", "STRING", "AVRO", "JSONSCHEMA", "PROTOBUF"],
                },
                "subject": MAYBE_TEXT,
                "subject_name_strategy": {
                    "enum": ["TOPIC_NAME", "RECORD_NAME", "TOPIC_RECORD_NAME", None],
                },
                "schema_id": MAYBE_NUMBER,
                "schema_version": MAYBE_NUMBER,
                "schema": MAYBE_TEXT,
                "data": ANY,
            },
            ("type", "subject", "subject_name_strategy", "schema_id", "schema_version", "schema", "data"),
        ),
        "type": ["object", "null"],
    },
    "ProduceRequest": _request(_RECORD, tuple(_RECORD)),
    "ProducedData": _object(
        {
            "type": TEXT,
            "subject": MAYBE_TEXT,
            "schema_id": MAYBE_NUMBER,
            "schema_version": MAYBE_NUMBER,
            "size": NUMBER,
        },
        ("type", "subject", "schema_id", "schema_version"),
    ),
    "ProduceResponse": {"anyOf": [_object(_PRODUCED, ("key", "value")), ref("Error")]},
    "ProduceBatchRequest": _request({"entries": _list(_request({"id": TEXT, **_RECORD}, tuple(_RECORD)))}),
    "ProduceBatchResponse": _object(
        {
            "successes": _list(
                _object({"id": TEXT, **_PRODUCED}, ("error_code", "key", "value")),
            ),
            "failures": _list(_object({"id": TEXT, "error_code": NUMBER, "message": MAYBE_TEXT})),
        }
    ),
}

V2: Final[Mapping[str, Schema]] = {
    "Nothing": {"type": "object", "maxProperties": 0},
    "TopicNames": _list(TEXT),
    "Topic": _object(
        {
            "name": TEXT,
            "configs": {"type": "object", "additionalProperties": MAYBE_TEXT},
            "partitions": _list(ref("Partition")),
        }
    ),
    "Partition": _object(
        {
            "partition": NUMBER,
            "leader": {**NUMBER, "description": "-1 while there is none"},
            "replicas": _list(_object({"broker": NUMBER, "leader": FLAG, "in_sync": FLAG})),
        }
    ),
    "PartitionList": _list(ref("Partition")),
    "PartitionOffsets": _object({"beginning_offset": NUMBER, "end_offset": NUMBER}),
    "BrokerIds": _object({"brokers": _list(NUMBER)}),
    "Records": _request(
        {
            "key_schema": MAYBE_TEXT,
            "key_schema_id": MAYBE_NUMBER,
            "value_schema": MAYBE_TEXT,
            "value_schema_id": MAYBE_NUMBER,
            "records": _list(
                _request({"key": ANY, "value": ANY, "partition": MAYBE_NUMBER}, ("key", "value", "partition"))
            ),
        },
        ("key_schema", "key_schema_id", "value_schema", "value_schema_id"),
    ),
    "ProducedOffsets": _object(
        {
            "offsets": _list(
                _object(
                    {
                        "partition": MAYBE_NUMBER,
                        "offset": MAYBE_NUMBER,
                        "error_code": MAYBE_NUMBER,
                        "error": MAYBE_TEXT,
                    }
                )
            ),
            "key_schema_id": MAYBE_NUMBER,
            "value_schema_id": MAYBE_NUMBER,
        }
    ),
    "CreateInstance": _request(
        {
            "id": MAYBE_TEXT,
            "name": MAYBE_TEXT,
            "format": {"enum": ["binary", "json", "avro", "jsonschema", "protobuf", None]},
            "auto.offset.reset": MAYBE_TEXT,
            "auto.commit.enable": {"type": ["string", "boolean", "null"]},
            "fetch.min.bytes": {"type": ["string", "integer", "null"]},
            "consumer.request.timeout.ms": {"type": ["string", "integer", "null"]},
        },
        (
            "id",
            "name",
            "format",
            "auto.offset.reset",
            "auto.commit.enable",
            "fetch.min.bytes",
            "consumer.request.timeout.ms",
        ),
    ),
    "Instance": _object({"instance_id": TEXT, "base_uri": TEXT}),
    "SubscribeRequest": _request({"topics": _list(TEXT), "topic_pattern": TEXT}, ("topics", "topic_pattern")),
    "Subscription": _object({"topics": _list(TEXT)}),
    "TopicPartitions": _object({"partitions": _list(_object(_TOPIC_PARTITION))}),
    "Positions": _request(
        {
            "offsets": _list(_object(_OFFSET, ("metadata",))),
            "timestamps": _list(_object({**_TOPIC_PARTITION, "timestamp": {"type": ["string", "integer"]}})),
        },
        ("offsets", "timestamps"),
    ),
    "Commit": _object({"offsets": _list(_object(_OFFSET, ("metadata",)))}, ("offsets",)),
    "Committed": _object({"offsets": _list(_object(_OFFSET))}),
    "ConsumedRecords": _list(
        _object(
            {
                "topic": TEXT,
                "key": ANY,
                "value": ANY,
                "partition": NUMBER,
                "offset": NUMBER,
                "timestamp": MAYBE_NUMBER,
                "headers": _list(_object({"name": TEXT, "value": MAYBE_TEXT})),
            },
            ("timestamp", "headers"),
        )
    ),
}

SCHEMAS: Final[Mapping[str, Schema]] = {**V3, **V2}
