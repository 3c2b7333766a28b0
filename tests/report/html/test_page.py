"""The page in a real browser: what it draws, its keys, and that it fits a telephone. Needs Chromium."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from syncverify import Policy
from syncverify.report import html
from syncverify.report.base import Report
from tests.report.html.rings import early_release, wrong_parity

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")

#: Runs in the page after it was drawn, and leaves what it found in the document's title.
PROBE = """
<script>addEventListener("load", () => setTimeout(() => {
  const box = document.querySelector(".picture");
  const press = (key, at = document) => at.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
  const step = () => document.querySelector(".controls .code").textContent;
  const found = {dots: box.querySelectorAll("circle").length, first: step()};
  press("Home", box); found.home = step();
  press("ArrowRight", box); found.next = step();
  found.inside = innerWidth;
  found.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  press("k"); found.before = document.querySelector("h2").textContent;
  document.getElementById("filter").value = "no such kernel";
  document.getElementById("filter").dispatchEvent(new Event("input"));
  found.rows = [...document.querySelectorAll("#index tbody tr")].filter((r) => !r.hidden).length;
  parent.postMessage(JSON.stringify(found), "*");
}, 300));</script>
"""
#: Holds the page in a frame of a width, for a browser's own window is not made narrower than some 500 pixels.
FRAME = """
<iframe src="{page}#k1" style="width: {width}px; height: {height}px; border: 0"></iframe>
<script>addEventListener("message", (e) => document.body.setAttribute("data-found", e.data));</script>
"""


def _run(page: Path, size: tuple[int, int], tmp_path: Path) -> dict[str, object]:
    flags = "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking".split()
    flags += ["--disable-component-update", "--disable-sync", "--virtual-time-budget=4000", "--dump-dom"]
    frame = tmp_path / "frame.html"
    frame.write_text(FRAME.format(page=page.name, width=size[0], height=size[1]), "utf-8")
    flags += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1400,1000", f"file://{frame}"]
    done = subprocess.run([str(CHROMIUM), *flags], capture_output=True, text=True, timeout=120, check=True)
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found is not None, done.stdout[-2000:]
    data: dict[str, object] = json.loads(unescape(found[1]))
    return data


@pytest.mark.parametrize("size", [(1280, 900), (390, 800)])
def test_the_picture_is_drawn_and_stepped_through(size: tuple[int, int], tmp_path: Path) -> None:
    kernels = early_release(tmp_path), wrong_parity(tmp_path)
    page = tmp_path / "report.html"
    drawn = html.render(Report(Policy.PRACTICAL, kernels))
    page.write_text(drawn.replace("</body>", f"{PROBE}</body>"), "utf-8")
    witness = kernels[1].witness
    assert witness is not None
    found = _run(page, size, tmp_path)
    total = len(witness.steps)
    assert found["dots"] == total
    assert found["first"] == f"step {total} of {total}"
    assert (found["home"], found["next"]) == (f"step 1 of {total}", f"step 2 of {total}")
    assert str(found["before"]).endswith("ring: refuted")
    assert found["inside"] == size[0]
    assert found["wide"] == 0, "the page is wider than the window"
    assert found["rows"] == 0
