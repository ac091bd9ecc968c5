"""The audit: counts every message from its producer through every tier, and names what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.audit.aiokafka_producer import AuditedAIOKafkaProducer
    from ottla.client.audit.producer import AuditedProducer

__all__ = ["AuditedAIOKafkaProducer", "AuditedProducer"]


def __getattr__(name: str) -> Any:
    """The producers, each imported when it is asked for: their libraries are large."""
    if name == "AuditedProducer":
        from ottla.client.audit.producer import AuditedProducer

        return AuditedProducer
    if name == "AuditedAIOKafkaProducer":
        from ottla.client.audit.aiokafka_producer import AuditedAIOKafkaProducer

        return AuditedAIOKafkaProducer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
