"""Test and preview topologies: `from ottla.streams.testing import TopologyTestDriver, preview`."""

from __future__ import annotations

from ottla.streams.kit.kit_environment import KitError
from ottla.streams.kit.preview import ApplicationPreview, Preview, preview, preview_application
from ottla.streams.kit.testing import (
    DEAD_LETTERS,
    DeadLetter,
    InputTopic,
    OutputRecord,
    OutputTopic,
    TopologyTestDriver,
    local_session,
)

__all__ = [
    "DEAD_LETTERS",
    "ApplicationPreview",
    "DeadLetter",
    "InputTopic",
    "KitError",
    "OutputRecord",
    "OutputTopic",
    "Preview",
    "TopologyTestDriver",
    "local_session",
    "preview",
    "preview_application",
]
