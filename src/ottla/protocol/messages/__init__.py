"""Requests, responses and their headers: one module a message, generated from Kafka's tables.

Without a version in Kafka 4.4, and therefore not here: ControlledShutdownRequest,
ControlledShutdownResponse, LeaderAndIsrRequest, LeaderAndIsrResponse, StopReplicaRequest,
StopReplicaResponse, UpdateMetadataRequest, UpdateMetadataResponse.
"""
