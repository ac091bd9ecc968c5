"""Settings of a topic that is a mirror of another cluster's: ottla's own, Apache Kafka has no such topics.

They are a table of their own, so that `topic_settings` stays Kafka's word for word. A topic has them for as
long as it is a mirror; DescribeConfigs shows them only there. Their changes are the commands and the reports
of links: the controller adds to them what has to happen in the same moment (core/links/metadata.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.config.setting import Setting, string, string_list
from ottla.config.validators import OneOf

LINK_PREFIX: Final = "ottla.link."
MIRRORING: Final = "mirroring"
PROMOTE: Final = "promote"
FAIL_OVER: Final = "fail-over"
STOPPED: Final = "stopped"
CUT_OFF: Final = "cut-off"

LINK_NAME: Final = string(
    LINK_PREFIX + "name", "", "The link that fills the topic; it is read-only while this is set."
)
LINK_SOURCE_ID: Final = string(
    LINK_PREFIX + "source.topic.id", "", "The id of the source's topic, 32 hexadecimal digits."
)
LINK_STATE: Final = string(
    LINK_PREFIX + "state",
    MIRRORING,
    "The topic's way to being writable: `promote` waits until nothing is left to copy, `fail-over` does not, "
    "`stopped`, or `cut-off` for a fail-over, is set by the link when nothing more is copied.",
    OneOf((MIRRORING, PROMOTE, FAIL_OVER, STOPPED, CUT_OFF)),
)
LINK_EPOCHS: Final = string_list(
    LINK_PREFIX + "epochs",
    (),
    "partition:epoch pairs: the leader epochs that the source's partitions have reached.",
)
LINK_ENDS: Final = string_list(
    LINK_PREFIX + "ends",
    (),
    "Reports of partitions that are ready to be written to: where they end, and what was aborted.",
)
LINK_TOLD: Final = string_list(
    LINK_PREFIX + "told",
    (),
    "What the source lost, as partition:kind:from:to:time, with offsets and a time in ms.",
)

LINK_TOPIC_SETTINGS: Final[Mapping[str, Setting[Any]]] = {
    setting.name: setting
    for setting in (LINK_ENDS, LINK_EPOCHS, LINK_NAME, LINK_SOURCE_ID, LINK_STATE, LINK_TOLD)
}
