"""The group protocol as conversations: see the files in transcripts/.

After an intended change of behaviour, `OTTLA_REWRITE_TRANSCRIPTS=1 pytest` writes the real output into the
files; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.core.group_transcripts import TRANSCRIPT_DIRECTORY, run_file

TRANSCRIPTS = sorted(TRANSCRIPT_DIRECTORY.glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_conversation_goes_as_written(path: Path) -> None:
    expected, really = run_file(path)
    if os.environ.get("OTTLA_REWRITE_TRANSCRIPTS"):
        path.write_text(really, encoding="utf-8")
    else:
        assert really == expected
