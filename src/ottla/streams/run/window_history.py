"""Which offsets of a windowed changelog are behind its retention: by notes of its ends, not by the broker.

A broker can't be asked: its search by time finds the markers of transactions too, whose time is the clock's,
and event times may be years older. So the ends of the topic are noted now and then, each with a time that no
record before them is younger than (the largest that the broker knows of: a record's, or a marker's). Once the
watermark is so far past a note's time as windows are kept, everything before its ends can go.

A history that is lost makes a topic longer for a while, nothing else. Times are in ms since 1970.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.client.cluster import Positions

NOTES_A_RETENTION: Final = 24
MAX_NOTES: Final = 240


@dataclass(frozen=True, slots=True)
class Note:
    """No record before `ends` is younger than `latest_ms`."""

    latest_ms: int
    ends: Positions


@dataclass(slots=True)
class WindowHistory:
    """The notes of one topic, oldest first."""

    retention_ms: int
    notes: list[Note] = field(default_factory=list)

    def note(self, latest_ms: int, ends: Positions) -> None:
        """Take a note, unless one was taken shortly before; of too many the oldest is dropped."""
        if self.notes and latest_ms - self.notes[-1].latest_ms < self.retention_ms // NOTES_A_RETENTION:
            return
        self.notes = [*self.notes, Note(latest_ms, dict(ends))][-MAX_NOTES:]

    def expire(self, watermark_ms: int) -> Positions:
        """The offsets before which every record is behind the retention; none where no record is."""
        expired = [note for note in self.notes if note.latest_ms + self.retention_ms <= watermark_ms]
        self.notes = self.notes[len(expired) :]
        return expired[-1].ends if expired else {}

    @classmethod
    def read(cls, file: Path, topic_id: str, retention_ms: int) -> WindowHistory:
        """The topic's history; without notes if the file is unreadable, or of an older topic of its name."""
        notes: list[Note] = []
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            kept = json.loads(file.read_text(encoding="utf-8"))
            if kept["topic_id"] == topic_id:
                notes = [
                    Note(int(each["latest_ms"]), {int(p): int(offset) for p, offset in each["ends"].items()})
                    for each in kept["notes"]
                ]
        return cls(retention_ms, notes)

    def write(self, file: Path, topic_id: str) -> None:
        """Keep it for the next start. Raises OSError."""
        notes = [{"latest_ms": note.latest_ms, "ends": dict(note.ends)} for note in self.notes]
        file.parent.mkdir(parents=True, exist_ok=True)
        new = file.with_suffix(".new")
        new.write_text(json.dumps({"topic_id": topic_id, "notes": notes}), encoding="utf-8")
        os.replace(new, file)
