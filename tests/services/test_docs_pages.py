"""The pages of both services' APIs fit narrow windows, as a real browser lays them out."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.registry import openapi as registry
from ottla.rest import openapi as rest
from ottla.rest.app import ADMINISTRATION
from ottla.web.docs_page import docs_page

CHROMIUM = shutil.which("chromium")
TIMEOUT_S = 120
FRAME = """<!doctype html><body><iframe src="page.html" width="{width}" height="900"></iframe><pre></pre>
<script>
onload = () => {{
  const page = document.querySelector("iframe").contentDocument;
  const root = page.documentElement;
  const hidden = [...page.querySelectorAll("table, pre")].filter(one => {{
    const box = one.closest(".table, pre");
    return box.scrollWidth > box.clientWidth && getComputedStyle(box).overflowX !== "auto";
  }});
  document.querySelector("pre").textContent =
    `widths ${{root.clientWidth}} ${{root.scrollWidth}} ${{hidden.length}}`;
}};
</script>"""


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs a browser: apt-get install chromium")
@pytest.mark.parametrize("width", [320, 420, 1200])
@pytest.mark.parametrize("service", ["rest", "registry"])
def test_the_page_scrolls_in_no_window_sideways(tmp_path: Path, width: int, service: str) -> None:
    document = registry.openapi_document()
    if service == "rest":
        document = rest.openapi_document([operation.description for operation in ADMINISTRATION])
    page = docs_page(document).replace("<details", "<details open")
    (tmp_path / "page.html").write_text(page)
    (tmp_path / "frame.html").write_text(FRAME.format(width=width))
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command += ["--allow-file-access-from-files", f"--user-data-dir={tmp_path / 'profile'}"]

    done = subprocess.run(
        [*command, (tmp_path / "frame.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )

    found = re.search(r"<pre>widths (\d+) (\d+) (\d+)</pre>", done.stdout)
    assert found is not None, done.stdout[-500:]
    inner, needed, hidden = map(int, found.groups())
    assert 0 < needed <= inner <= width
    assert hidden == 0
