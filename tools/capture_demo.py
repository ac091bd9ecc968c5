"""Draw docs/demo.svg: run the real demo and keep a picture of its page from the middle of the run.

python tools/capture_demo.py [TWEETS_SEEN]
"""

from __future__ import annotations

import io
import re
import signal
import sys
from pathlib import Path

from rich.console import Console

from ottla.demo import run
from ottla.demo.page import Picture, page

TARGET = Path(__file__).parent.parent / "docs" / "demo.svg"
WIDTH = 120


def main() -> int:
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    pictures: list[Picture] = []

    def keep(picture: Picture) -> str:
        if picture.seen.scored >= wanted and not pictures:
            pictures.append(picture)
            signal.raise_signal(signal.SIGINT)
        return f"{picture.seen.scored} of {wanted} tweets seen"

    run.plain_line = keep
    code = run.run_demo(run.DemoOptions())
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(page(pictures[0]))
    TARGET.parent.mkdir(exist_ok=True)
    print(console.export_text(clear=False))
    # The drawing stands alone: fonts are the reader's own, not fetched from anywhere.
    drawing = re.sub(
        r"@font-face \{.*?\}|<!--.*?-->", "", console.export_svg(title="ottla demo"), flags=re.DOTALL
    )
    TARGET.write_text(
        "\n".join(line for line in drawing.splitlines() if line.strip()) + "\n", encoding="utf-8"
    )
    print(f"{TARGET} drawn")
    return code


if __name__ == "__main__":
    sys.exit(main())
