"""The logs on disk as a whole: opened at the start, kept in bounds and checkpointed, closed at the end.

What goes to disk when, so that kill -9 is survivable at any line:

    append              the page cache; a killed process loses nothing of it, a dead machine what was unsynced
    roll, flush         the segment is synced first, then the recovery point checkpoint may name it
    retention           the log start offset moves in memory, files are renamed to `.deleted`, then removed;
                        after a crash the first remaining segment tells the start
    DeleteRecords       the log start offset checkpoint is synced before the client hears of it
    clean shutdown      all logs synced and closed, checkpoints written, then the marker file, last of all
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.partition import Partition
from ottla.core.metadata import broker_settings, topic_settings
from ottla.core.metadata.image import MetadataImage, TopicImage
from ottla.core.metadata.settings import Config
from ottla.storage.log import Log, LogConfig
from ottla.storage.log_directory import LogDirectory

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.replica_manager import ReplicaManager
    from ottla.broker.supervisor import Supervisor

log = logging.getLogger("ottla.broker")
