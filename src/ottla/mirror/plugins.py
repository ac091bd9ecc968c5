"""The connectors of the mirror, as plugins of Connect."""

from __future__ import annotations

from typing import Final

import ottla
from ottla.connect.plugins.catalog import Kind, Plugin

PLUGINS: Final[tuple[Plugin, ...]] = (
    Plugin(
        ("org.apache.kafka.connect.mirror.MirrorSourceConnector", "ottla.mirror.MirrorSource"),
        Kind.SOURCE,
        ottla.__version__,
        "ottla.mirror.source.connector:MirrorSource",
    ),
    Plugin(
        ("org.apache.kafka.connect.mirror.MirrorCheckpointConnector", "ottla.mirror.MirrorCheckpoint"),
        Kind.SOURCE,
        ottla.__version__,
        "ottla.mirror.checkpoints.checkpoint:MirrorCheckpoint",
    ),
    Plugin(
        ("org.apache.kafka.connect.mirror.MirrorHeartbeatConnector", "ottla.mirror.MirrorHeartbeat"),
        Kind.SOURCE,
        ottla.__version__,
        "ottla.mirror.checkpoints.heartbeat:MirrorHeartbeat",
    ),
)
