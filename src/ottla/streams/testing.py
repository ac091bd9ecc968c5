"""Test and preview topologies: `from ottla.streams.testing import TopologyTestDriver, preview`."""

from __future__ import annotations

from ottla.streams.kit.kit_environment import KitError
from ottla.streams.kit.preview import preview, preview_application
from ottla.streams.kit.results import ApplicationPreview, DeadLetter, OutputRecord, Preview
from ottla.streams.kit.testing import (
    DEAD_LETTERS,
    InputTopic,
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
