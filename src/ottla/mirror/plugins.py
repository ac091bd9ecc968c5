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
)
