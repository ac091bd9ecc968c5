"""The history of a windowed changelog: no record goes before its time; it outlives a restart."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ottla.streams.run.window_history import MAX_NOTES, Note, WindowHistory

RETENTION_MS = 24_000


def test_a_note_expires_when_the_watermark_is_the_retention_past_it() -> None:
    history = WindowHistory(RETENTION_MS)
    history.note(1_000, {0: 5, 1: 7})
    history.note(9_000, {0: 8, 1: 9})

    assert history.expire(24_999) == {}
    assert history.expire(25_000) == {0: 5, 1: 7}
    assert history.expire(25_000) == {}
    assert history.expire(33_000) == {0: 8, 1: 9}


def test_notes_are_taken_a_part_of_the_retention_apart() -> None:
    history = WindowHistory(RETENTION_MS)
    for second in range(MAX_NOTES + 100):
        history.note(second * 1_000, {0: second})
        history.note(second * 1_000 + 999, {0: second + 1})

    assert len(history.notes) == MAX_NOTES
    assert history.notes[-1] == Note((MAX_NOTES + 99) * 1_000, {0: MAX_NOTES + 99})


def test_a_history_goes_on_after_a_restart_but_not_for_another_topic(tmp_path: Path) -> None:
    file = tmp_path / "queries" / "changelog.windows"
    history = WindowHistory(RETENTION_MS)
    history.note(1_000, {0: 5, 1: 7})
    history.write(file, "id-1")

    assert WindowHistory.read(file, "id-1", RETENTION_MS) == history
    assert WindowHistory.read(file, "id-2", RETENTION_MS).notes == []
    for broken in ("", "[]", '{"topic_id": "id-1"}', '{"topic_id": "id-1", "notes": [3]}'):
        file.write_text(broken)
        assert WindowHistory.read(file, "id-1", RETENTION_MS).notes == []


steps = st.lists(
    st.tuples(st.sampled_from(["record", "note", "expire"]), st.integers(0, 60_000)), min_size=1, max_size=60
)


@given(steps)
def test_no_record_goes_before_its_time(made: list[tuple[str, int]]) -> None:
    history, times, deleted, watermark_ms = WindowHistory(RETENTION_MS), list[int](), 0, 0
    for kind, time_ms in made:
        match kind:
            case "record":
                times.append(time_ms)
            case "note" if times:
                history.note(max(times), {0: len(times)})
            case "expire":
                watermark_ms = max(watermark_ms, time_ms)
                deleted = max(deleted, history.expire(watermark_ms).get(0, 0))
    assert all(time_ms + RETENTION_MS <= watermark_ms for time_ms in times[:deleted])
