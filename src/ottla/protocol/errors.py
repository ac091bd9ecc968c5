"""Kafka's error codes, one exception class for each, and the exceptions of malformed bytes.

Two families, never mixed. A `KafkaError` is an answer: it carries an `ErrorCode` that is sent to the client
in a response. A `ProtocolError` means that bytes could not be decoded; the connection (or the batch) that
they came from is of no further use. Names and numbers are those of Apache Kafka 4.4; the texts are ours.
"""

from __future__ import annotations

import enum
from typing import ClassVar

_RETRIABLE = True


class ErrorCode(enum.IntEnum):
    """Every error code of Kafka 4.4, with a short text and whether a client may try the request again."""

    message: str
    retriable: bool

    def __new__(cls, value: int, message: str = "", retriable: bool = False) -> ErrorCode:
        member = int.__new__(cls, value)
        member._value_ = value
        member.message = message
        member.retriable = retriable
        return member

    @classmethod
    def _missing_(cls, value: object) -> ErrorCode | None:
        """An unknown code counts as UNKNOWN_SERVER_ERROR, as in Kafka."""
        return cls.UNKNOWN_SERVER_ERROR if isinstance(value, int) else None

    UNKNOWN_SERVER_ERROR = -1, "the broker met an error it has no name for"
    NONE = 0, "no error"
    OFFSET_OUT_OF_RANGE = 1, "the log of this replica does not hold the offset"
    CORRUPT_MESSAGE = 2, "the records are damaged: checksum, size or structure is wrong", _RETRIABLE
    UNKNOWN_TOPIC_OR_PARTITION = 3, "no such topic or partition here", _RETRIABLE
    INVALID_FETCH_SIZE = 4, "the fetch size is not valid"
    LEADER_NOT_AVAILABLE = 5, "the partition has no leader at the moment", _RETRIABLE
    NOT_LEADER_OR_FOLLOWER = (
        6,
        "this broker does not lead (or, for a fetch, replicate) the partition",
        _RETRIABLE,
    )
    REQUEST_TIMED_OUT = 7, "the request was not completed in time", _RETRIABLE
    BROKER_NOT_AVAILABLE = 8, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, "the replica is not available", _RETRIABLE
    MESSAGE_TOO_LARGE = 10, "the record batch is larger than max.message.bytes"
    STALE_CONTROLLER_EPOCH = 11, "the controller has moved to a newer epoch"
    OFFSET_METADATA_TOO_LARGE = 12, "the offset's metadata is larger than offset.metadata.max.bytes"
    NETWORK_EXCEPTION = 13, "the connection ended before a response came", _RETRIABLE
    COORDINATOR_LOAD_IN_PROGRESS = 14, "the coordinator is still loading its state", _RETRIABLE
    COORDINATOR_NOT_AVAILABLE = 15, "the coordinator is not available", _RETRIABLE
    NOT_COORDINATOR = 16, "this broker is not the coordinator", _RETRIABLE
    INVALID_TOPIC_EXCEPTION = 17, "the topic name is not valid, or the topic may not be written to"
    RECORD_LIST_TOO_LARGE = 18, "the record batch is larger than a segment"
    NOT_ENOUGH_REPLICAS = 19, "fewer replicas are in sync than min.insync.replicas asks for", _RETRIABLE
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        "the records were written, but fewer replicas are in sync than min.insync.replicas asks for",
        _RETRIABLE,
    )
    INVALID_REQUIRED_ACKS = 21, "acks must be -1, 0 or 1"
    ILLEGAL_GENERATION = 22, "the generation is not the group's current one"
    INCONSISTENT_GROUP_PROTOCOL = 23, "the member's protocol type or protocols do not fit the group's"
    INVALID_GROUP_ID = 24, "the group id is not valid"
    UNKNOWN_MEMBER_ID = 25, "the group has no such member"
    INVALID_SESSION_TIMEOUT = (
        26,
        "the session timeout is outside group.min.session.timeout.ms and group.max.session.timeout.ms",
    )
    REBALANCE_IN_PROGRESS = 27, "the group is rebalancing: join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, "the offset commit is too large"
    TOPIC_AUTHORIZATION_FAILED = 29, "not authorized for the topic"
    GROUP_AUTHORIZATION_FAILED = 30, "not authorized for the group"
    CLUSTER_AUTHORIZATION_FAILED = 31, "not authorized for the cluster"
    INVALID_TIMESTAMP = 32, "a record's timestamp is outside the range the topic accepts"
    UNSUPPORTED_SASL_MECHANISM = 33, "the SASL mechanism is not enabled here"
    ILLEGAL_SASL_STATE = 34, "the request does not fit the state of the SASL exchange"
    UNSUPPORTED_VERSION = 35, "the version is not supported"
    TOPIC_ALREADY_EXISTS = 36, "the topic exists already"
    INVALID_PARTITIONS = 37, "the number of partitions is not valid"
    INVALID_REPLICATION_FACTOR = 38, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, "the replica assignment is not valid"
    INVALID_CONFIG = 40, "the configuration is not valid"
    NOT_CONTROLLER = 41, "this node is not the active controller", _RETRIABLE
    INVALID_REQUEST = 42, "the request is not valid"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, "the message format on the broker does not support the request"
    POLICY_VIOLATION = 44, "the request breaks a policy set on the cluster"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, "the producer's sequence number does not follow its last one"
    DUPLICATE_SEQUENCE_NUMBER = 46, "the producer sent this sequence number before"
    INVALID_PRODUCER_EPOCH = 47, "the producer's epoch is older than the one known here"
    INVALID_TXN_STATE = 48, "the transaction's state does not allow the operation"
    INVALID_PRODUCER_ID_MAPPING = 49, "the producer id does not belong to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, "the transaction timeout is below 1 or above transaction.max.timeout.ms"
    CONCURRENT_TRANSACTIONS = 51, "another operation on this transaction is still under way", _RETRIABLE
    TRANSACTION_COORDINATOR_FENCED = (
        52,
        "the marker comes from a transaction coordinator that is no longer current",
    )
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, "not authorized for the transactional id"
    SECURITY_DISABLED = 54, "security features are disabled"
    OPERATION_NOT_ATTEMPTED = 55, "the operation was not tried: another one in the same request failed"
    KAFKA_STORAGE_ERROR = 56, "the broker's disk failed on the partition", _RETRIABLE
    LOG_DIR_NOT_FOUND = 57, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, "SASL authentication failed"
    UNKNOWN_PRODUCER_ID = 59, "the broker holds no state of the producer id"
    REASSIGNMENT_IN_PROGRESS = 60, "a partition reassignment is under way"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, "delegation tokens are not enabled"
    DELEGATION_TOKEN_NOT_FOUND = 62, "no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, "the delegation token belongs to another principal"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        "delegation token requests are not allowed on this kind of connection",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, "not authorized for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, "the principal type is not supported"
    NON_EMPTY_GROUP = 68, "the group still has members"
    GROUP_ID_NOT_FOUND = 69, "no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, "no such fetch session", _RETRIABLE
    INVALID_FETCH_SESSION_EPOCH = 71, "the fetch session epoch is not the expected one", _RETRIABLE
    LISTENER_NOT_FOUND = 72, "the leader has no listener of the name that this request came in on", _RETRIABLE
    TOPIC_DELETION_DISABLED = 73, "delete.topic.enable is false"
    FENCED_LEADER_EPOCH = 74, "the leader epoch is older than the one known here", _RETRIABLE
    UNKNOWN_LEADER_EPOCH = 75, "the leader epoch is newer than the one known here", _RETRIABLE
    UNSUPPORTED_COMPRESSION_TYPE = 76, "the compression type is not supported"
    STALE_BROKER_EPOCH = 77, "the broker epoch is not the current one"
    OFFSET_NOT_AVAILABLE = (
        78,
        "the leader has just been elected: its high watermark is not known yet",
        _RETRIABLE,
    )
    MEMBER_ID_REQUIRED = 79, "join again with the member id given in this response"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, "the preferred leader is not available", _RETRIABLE
    GROUP_MAX_SIZE_REACHED = 81, "the group has as many members as it may have"
    FENCED_INSTANCE_ID = 82, "another member has taken over this group.instance.id"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, "no replica may become the partition's leader", _RETRIABLE
    ELECTION_NOT_NEEDED = 84, "the partition has its leader: no election is needed", _RETRIABLE
    NO_REASSIGNMENT_IN_PROGRESS = 85, "no partition reassignment is under way"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, "the group is subscribed to the topic"
    INVALID_RECORD = 87, "the broker's checks refused a record"
    UNSTABLE_OFFSET_COMMIT = (
        88,
        "a transaction that is still open holds an offset of the partition",
        _RETRIABLE,
    )
    THROTTLING_QUOTA_EXCEEDED = 89, "the quota of this operation is used up for now", _RETRIABLE
    PRODUCER_FENCED = 90, "a newer producer uses the same transactional id"
    RESOURCE_NOT_FOUND = 91, "the request names something that does not exist"
    DUPLICATE_RESOURCE = 92, "the request names the same thing twice"
    UNACCEPTABLE_CREDENTIAL = 93, "the credential does not meet the requirements"
    INCONSISTENT_VOTER_SET = 94, "sender or receiver is not in the other's set of voters"
    INVALID_UPDATE_VERSION = 95, "the update's version is not valid"
    FEATURE_UPDATE_FAILED = 96, "the feature could not be updated"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, "the forwarded principal could not be read"
    SNAPSHOT_NOT_FOUND = 98, "no such snapshot"
    POSITION_OUT_OF_RANGE = 99, "the position is outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, "no topic of this id here", _RETRIABLE
    DUPLICATE_BROKER_REGISTRATION = 101, "a live broker is registered under this node id"
    BROKER_ID_NOT_REGISTERED = 102, "no broker is registered under this node id"
    INCONSISTENT_TOPIC_ID = 103, "the topic's id is not the one in the request", _RETRIABLE
    INCONSISTENT_CLUSTER_ID = 104, "the cluster's id is not the one in the request"
    TRANSACTIONAL_ID_NOT_FOUND = 105, "no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, "the fetch session mixes topic names and topic ids", _RETRIABLE
    INELIGIBLE_REPLICA = 107, "a replica of the new in-sync set may not be in it"
    NEW_LEADER_ELECTED = 108, "the partition change elected another leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, "the offset is in tiered storage only"
    FENCED_MEMBER_EPOCH = 110, "the member's epoch is not the group coordinator's: rejoin the group"
    UNRELEASED_INSTANCE_ID = 111, "another member of the group still uses this instance id"
    UNSUPPORTED_ASSIGNOR = 112, "the group's members do not support the assignor"
    STALE_MEMBER_EPOCH = 113, "the member epoch is old: retry with the current one"
    MISMATCHED_ENDPOINT_TYPE = (
        114,
        "the request went to a controller instead of a broker, or the other way round",
    )
    UNSUPPORTED_ENDPOINT_TYPE = 115, "the endpoint type is not supported"
    UNKNOWN_CONTROLLER_ID = 116, "no such controller"
    UNKNOWN_SUBSCRIPTION_ID = 117, "the telemetry subscription id is not the current one"
    TELEMETRY_TOO_LARGE = 118, "the telemetry is larger than telemetry.max.bytes"
    INVALID_REGISTRATION = 119, "the controller refused the registration"
    TRANSACTION_ABORTABLE = 120, "the transaction met an error: abort it"
    INVALID_RECORD_STATE = 121, "the record's delivery state does not allow the acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, "no such share session", _RETRIABLE
    INVALID_SHARE_SESSION_EPOCH = 123, "the share session epoch is not the expected one", _RETRIABLE
    FENCED_STATE_EPOCH = 124, "the state epoch is older than the one known here"
    INVALID_VOTER_KEY = 125, "the voter key is not the receiving node's"
    DUPLICATE_VOTER = 126, "the voter is in the set of voters already"
    VOTER_NOT_FOUND = 127, "the voter is not in the set of voters"
    INVALID_REGULAR_EXPRESSION = 128, "the regular expression is not valid"
    REBOOTSTRAP_REQUIRED = 129, "the client must start again from its bootstrap servers"
    STREAMS_INVALID_TOPOLOGY = 130, "the streams topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, "the streams topology epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, "the streams topology epoch is older than the group's"
    SHARE_SESSION_LIMIT_REACHED = 133, "the broker has as many share sessions as it may have", _RETRIABLE
    GROUP_DELETION_FAILED = 134, "the group could not be deleted; its own error message says why"
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (
        135,
        "the description of the streams topology could not be stored",
    )
    CONTROLLER_ID_NOT_REGISTERED = 136, "no controller with this id is registered"


class KafkaError(Exception):
    """An answer other than success, with one subclass for each code. The default
    message is the code's text.
    """

    code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, message: str = "") -> None:
        self.message = message or self.code.message
        super().__init__(self.message)

    @property
    def retriable(self) -> bool:
        """Whether Kafka's clients retry after this error."""
        return self.code.retriable

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.message!r})"


class ProtocolError(Exception):
    """Bytes that cannot be decoded. It closes the connection; it is not an error code."""


class MalformedMessage(ProtocolError):
    """A request, response or record whose bytes do not follow its table."""


class TooManyElements(MalformedMessage):
    """A message with more elements than are read in one go; its bytes may follow its table."""


class CorruptBatch(ProtocolError):
    """A record batch with a wrong length, checksum, count or content."""


class UnsupportedApiVersion(ProtocolError):
    """An API key that does not exist, or a version outside the range of its message."""

    def __init__(self, name: str, version: int, message: str = "") -> None:
        self.name = name
        self.version = version
        super().__init__(message or f"{name} has no version {version}")


class UnknownServerError(KafkaError):
    code = ErrorCode.UNKNOWN_SERVER_ERROR


class OffsetOutOfRange(KafkaError):
    code = ErrorCode.OFFSET_OUT_OF_RANGE


class CorruptMessage(KafkaError):
    code = ErrorCode.CORRUPT_MESSAGE


class UnknownTopicOrPartition(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class InvalidFetchSize(KafkaError):
    code = ErrorCode.INVALID_FETCH_SIZE


class LeaderNotAvailable(KafkaError):
    code = ErrorCode.LEADER_NOT_AVAILABLE


class NotLeaderOrFollower(KafkaError):
    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class RequestTimedOut(KafkaError):
    code = ErrorCode.REQUEST_TIMED_OUT


class BrokerNotAvailable(KafkaError):
    code = ErrorCode.BROKER_NOT_AVAILABLE


class ReplicaNotAvailable(KafkaError):
    code = ErrorCode.REPLICA_NOT_AVAILABLE


class MessageTooLarge(KafkaError):
    code = ErrorCode.MESSAGE_TOO_LARGE


class StaleControllerEpoch(KafkaError):
    code = ErrorCode.STALE_CONTROLLER_EPOCH


class OffsetMetadataTooLarge(KafkaError):
    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class NetworkException(KafkaError):
    code = ErrorCode.NETWORK_EXCEPTION


class CoordinatorLoadInProgress(KafkaError):
    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailable(KafkaError):
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class NotCoordinator(KafkaError):
    code = ErrorCode.NOT_COORDINATOR


class InvalidTopicException(KafkaError):
    code = ErrorCode.INVALID_TOPIC_EXCEPTION


class RecordListTooLarge(KafkaError):
    code = ErrorCode.RECORD_LIST_TOO_LARGE


class NotEnoughReplicas(KafkaError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppend(KafkaError):
    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class InvalidRequiredAcks(KafkaError):
    code = ErrorCode.INVALID_REQUIRED_ACKS


class IllegalGeneration(KafkaError):
    code = ErrorCode.ILLEGAL_GENERATION


class InconsistentGroupProtocol(KafkaError):
    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class InvalidGroupId(KafkaError):
    code = ErrorCode.INVALID_GROUP_ID


class UnknownMemberId(KafkaError):
    code = ErrorCode.UNKNOWN_MEMBER_ID


class InvalidSessionTimeout(KafkaError):
    code = ErrorCode.INVALID_SESSION_TIMEOUT


class RebalanceInProgress(KafkaError):
    code = ErrorCode.REBALANCE_IN_PROGRESS


class InvalidCommitOffsetSize(KafkaError):
    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE


class TopicAuthorizationFailed(KafkaError):
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED


class GroupAuthorizationFailed(KafkaError):
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED


class ClusterAuthorizationFailed(KafkaError):
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


class InvalidTimestamp(KafkaError):
    code = ErrorCode.INVALID_TIMESTAMP


class UnsupportedSaslMechanism(KafkaError):
    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class IllegalSaslState(KafkaError):
    code = ErrorCode.ILLEGAL_SASL_STATE


class UnsupportedVersion(KafkaError):
    code = ErrorCode.UNSUPPORTED_VERSION


class TopicAlreadyExists(KafkaError):
    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitions(KafkaError):
    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactor(KafkaError):
    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignment(KafkaError):
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class InvalidConfig(KafkaError):
    code = ErrorCode.INVALID_CONFIG


class NotController(KafkaError):
    code = ErrorCode.NOT_CONTROLLER


class InvalidRequest(KafkaError):
    code = ErrorCode.INVALID_REQUEST


class UnsupportedForMessageFormat(KafkaError):
    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


class PolicyViolation(KafkaError):
    code = ErrorCode.POLICY_VIOLATION


class OutOfOrderSequenceNumber(KafkaError):
    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class DuplicateSequenceNumber(KafkaError):
    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class InvalidProducerEpoch(KafkaError):
    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTxnState(KafkaError):
    code = ErrorCode.INVALID_TXN_STATE


class InvalidProducerIdMapping(KafkaError):
    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class InvalidTransactionTimeout(KafkaError):
    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT


class ConcurrentTransactions(KafkaError):
    code = ErrorCode.CONCURRENT_TRANSACTIONS


class TransactionCoordinatorFenced(KafkaError):
    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class TransactionalIdAuthorizationFailed(KafkaError):
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class SecurityDisabled(KafkaError):
    code = ErrorCode.SECURITY_DISABLED


class OperationNotAttempted(KafkaError):
    code = ErrorCode.OPERATION_NOT_ATTEMPTED


class KafkaStorageError(KafkaError):
    code = ErrorCode.KAFKA_STORAGE_ERROR


class LogDirNotFound(KafkaError):
    code = ErrorCode.LOG_DIR_NOT_FOUND


class SaslAuthenticationFailed(KafkaError):
    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class UnknownProducerId(KafkaError):
    code = ErrorCode.UNKNOWN_PRODUCER_ID


class ReassignmentInProgress(KafkaError):
    code = ErrorCode.REASSIGNMENT_IN_PROGRESS


class DelegationTokenAuthDisabled(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


class DelegationTokenNotFound(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND


class DelegationTokenOwnerMismatch(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


class DelegationTokenRequestNotAllowed(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class DelegationTokenAuthorizationFailed(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


class DelegationTokenExpired(KafkaError):
    code = ErrorCode.DELEGATION_TOKEN_EXPIRED


class InvalidPrincipalType(KafkaError):
    code = ErrorCode.INVALID_PRINCIPAL_TYPE


class NonEmptyGroup(KafkaError):
    code = ErrorCode.NON_EMPTY_GROUP


class GroupIdNotFound(KafkaError):
    code = ErrorCode.GROUP_ID_NOT_FOUND


class FetchSessionIdNotFound(KafkaError):
    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND


class InvalidFetchSessionEpoch(KafkaError):
    code = ErrorCode.INVALID_FETCH_SESSION_EPOCH


class ListenerNotFound(KafkaError):
    code = ErrorCode.LISTENER_NOT_FOUND


class TopicDeletionDisabled(KafkaError):
    code = ErrorCode.TOPIC_DELETION_DISABLED


class FencedLeaderEpoch(KafkaError):
    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpoch(KafkaError):
    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class UnsupportedCompressionType(KafkaError):
    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class StaleBrokerEpoch(KafkaError):
    code = ErrorCode.STALE_BROKER_EPOCH


class OffsetNotAvailable(KafkaError):
    code = ErrorCode.OFFSET_NOT_AVAILABLE


class MemberIdRequired(KafkaError):
    code = ErrorCode.MEMBER_ID_REQUIRED


class PreferredLeaderNotAvailable(KafkaError):
    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


class GroupMaxSizeReached(KafkaError):
    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class FencedInstanceId(KafkaError):
    code = ErrorCode.FENCED_INSTANCE_ID


class EligibleLeadersNotAvailable(KafkaError):
    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


class ElectionNotNeeded(KafkaError):
    code = ErrorCode.ELECTION_NOT_NEEDED


class NoReassignmentInProgress(KafkaError):
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class GroupSubscribedToTopic(KafkaError):
    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


class InvalidRecord(KafkaError):
    code = ErrorCode.INVALID_RECORD


class UnstableOffsetCommit(KafkaError):
    code = ErrorCode.UNSTABLE_OFFSET_COMMIT


class ThrottlingQuotaExceeded(KafkaError):
    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class ProducerFenced(KafkaError):
    code = ErrorCode.PRODUCER_FENCED


class ResourceNotFound(KafkaError):
    code = ErrorCode.RESOURCE_NOT_FOUND


class DuplicateResource(KafkaError):
    code = ErrorCode.DUPLICATE_RESOURCE


class UnacceptableCredential(KafkaError):
    code = ErrorCode.UNACCEPTABLE_CREDENTIAL


class InconsistentVoterSet(KafkaError):
    code = ErrorCode.INCONSISTENT_VOTER_SET


class InvalidUpdateVersion(KafkaError):
    code = ErrorCode.INVALID_UPDATE_VERSION


class FeatureUpdateFailed(KafkaError):
    code = ErrorCode.FEATURE_UPDATE_FAILED


class PrincipalDeserializationFailure(KafkaError):
    code = ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


class SnapshotNotFound(KafkaError):
    code = ErrorCode.SNAPSHOT_NOT_FOUND


class PositionOutOfRange(KafkaError):
    code = ErrorCode.POSITION_OUT_OF_RANGE


class UnknownTopicId(KafkaError):
    code = ErrorCode.UNKNOWN_TOPIC_ID


class DuplicateBrokerRegistration(KafkaError):
    code = ErrorCode.DUPLICATE_BROKER_REGISTRATION


class BrokerIdNotRegistered(KafkaError):
    code = ErrorCode.BROKER_ID_NOT_REGISTERED


class InconsistentTopicId(KafkaError):
    code = ErrorCode.INCONSISTENT_TOPIC_ID


class InconsistentClusterId(KafkaError):
    code = ErrorCode.INCONSISTENT_CLUSTER_ID


class TransactionalIdNotFound(KafkaError):
    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


class FetchSessionTopicIdError(KafkaError):
    code = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


class IneligibleReplica(KafkaError):
    code = ErrorCode.INELIGIBLE_REPLICA


class NewLeaderElected(KafkaError):
    code = ErrorCode.NEW_LEADER_ELECTED


class OffsetMovedToTieredStorage(KafkaError):
    code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


class FencedMemberEpoch(KafkaError):
    code = ErrorCode.FENCED_MEMBER_EPOCH


class UnreleasedInstanceId(KafkaError):
    code = ErrorCode.UNRELEASED_INSTANCE_ID


class UnsupportedAssignor(KafkaError):
    code = ErrorCode.UNSUPPORTED_ASSIGNOR


class StaleMemberEpoch(KafkaError):
    code = ErrorCode.STALE_MEMBER_EPOCH


class MismatchedEndpointType(KafkaError):
    code = ErrorCode.MISMATCHED_ENDPOINT_TYPE


class UnsupportedEndpointType(KafkaError):
    code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


class UnknownControllerId(KafkaError):
    code = ErrorCode.UNKNOWN_CONTROLLER_ID


class UnknownSubscriptionId(KafkaError):
    code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID


class TelemetryTooLarge(KafkaError):
    code = ErrorCode.TELEMETRY_TOO_LARGE


class InvalidRegistration(KafkaError):
    code = ErrorCode.INVALID_REGISTRATION


class TransactionAbortable(KafkaError):
    code = ErrorCode.TRANSACTION_ABORTABLE


class InvalidRecordState(KafkaError):
    code = ErrorCode.INVALID_RECORD_STATE


class ShareSessionNotFound(KafkaError):
    code = ErrorCode.SHARE_SESSION_NOT_FOUND


class InvalidShareSessionEpoch(KafkaError):
    code = ErrorCode.INVALID_SHARE_SESSION_EPOCH


class FencedStateEpoch(KafkaError):
    code = ErrorCode.FENCED_STATE_EPOCH


class InvalidVoterKey(KafkaError):
    code = ErrorCode.INVALID_VOTER_KEY


class DuplicateVoter(KafkaError):
    code = ErrorCode.DUPLICATE_VOTER


class VoterNotFound(KafkaError):
    code = ErrorCode.VOTER_NOT_FOUND


class InvalidRegularExpression(KafkaError):
    code = ErrorCode.INVALID_REGULAR_EXPRESSION


class RebootstrapRequired(KafkaError):
    code = ErrorCode.REBOOTSTRAP_REQUIRED


class StreamsInvalidTopology(KafkaError):
    code = ErrorCode.STREAMS_INVALID_TOPOLOGY


class StreamsInvalidTopologyEpoch(KafkaError):
    code = ErrorCode.STREAMS_INVALID_TOPOLOGY_EPOCH


class StreamsTopologyFenced(KafkaError):
    code = ErrorCode.STREAMS_TOPOLOGY_FENCED


class ShareSessionLimitReached(KafkaError):
    code = ErrorCode.SHARE_SESSION_LIMIT_REACHED


class GroupDeletionFailed(KafkaError):
    code = ErrorCode.GROUP_DELETION_FAILED


class StreamsTopologyDescriptionUpdateFailed(KafkaError):
    code = ErrorCode.STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED


class ControllerIdNotRegistered(KafkaError):
    code = ErrorCode.CONTROLLER_ID_NOT_REGISTERED


_CLASSES: dict[int, type[KafkaError]] = {error.code: error for error in KafkaError.__subclasses__()}


def error_class(code: int) -> type[KafkaError]:
    """The exception class of an error code; `UnknownServerError` for an unknown code.

    Raises ValueError for 0 (NONE), which is not an error.
    """
    if code == ErrorCode.NONE:
        raise ValueError("NONE is not an error")
    return _CLASSES.get(code, UnknownServerError)
