"""Pictures of reports: eight mistakes of the gallery, as a browser shows them, to be looked at.

    pip install playwright    (and a Chromium: CHROMIUM names it, /usr/bin/chromium by default)
    python benchmarks/checker/pictures.py DIR [NAME...]    (PYTHON: the one that has syncverify, if another)

For each mistake DIR gets NAME-1280.png, NAME-390.png and NAME-1280-dark.png. Printed: how wide each page is;
it is an error if a page is wider than its window, or if its scripts fail. A person looks at the pictures:
what is wrong, where, and why must be plain in ten seconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "corpus" / "gallery"
#: Three hangs, two races, and others: the file's name of a picture, and the mistake.
SHOWN = {
    "hang-parity": "producer starts with parity 0",
    "hang-count": "count one too high",
    "hang-release": "release missing",
    "race-read": "release before read",
    "race-fence": "store fence missing",
    "wgmma-commit": "wgmma commit missing",
    "cluster-rank": "remote arrive to wrong rank",
    "named-roles": "named roles mixed",
}
#: Width and height of a window, and whether it is dark.
WINDOWS = ((1280, 900, False), (390, 844, False), (1280, 900, True))


def wrong(name: str, folder: Path) -> Path:
    """The kernel with a mistake of the gallery, in a folder with its headers."""
    of_ring = tomllib.loads((GALLERY / "mistakes.toml").read_text("utf-8"))["mistake"]
    of_others = tomllib.loads((GALLERY / "rings" / "mistakes.toml").read_text("utf-8"))["mistake"]
    found: dict[str, Any] = next(m for m in (*of_ring, *of_others) if m["name"] == name)
    source = GALLERY / "rings" / f"{found['kernel']}.cu" if "kernel" in found else GALLERY / "ring.cu"
    text = source.read_text("utf-8")
    whole = isinstance(found["old"], list)
    pairs = zip(found["old"], found["new"], strict=True) if whole else [(found["old"], found["new"])]
    for old, new in pairs:
        text = text.replace(old, new)
    (folder / "barrier.cuh").write_bytes((GALLERY / "rings" / "barrier.cuh").read_bytes())
    path = folder / source.name
    path.write_text(text, "utf-8")
    return path


def main() -> int:
    """Makes the pictures; 1 if a page is too wide."""
    from playwright.sync_api import sync_playwright

    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    too_wide = 0
    with tempfile.TemporaryDirectory() as scratch, sync_playwright() as browsers:
        chromium = os.environ.get("CHROMIUM", "/usr/bin/chromium")
        browser = browsers.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name in sys.argv[2:] or SHOWN:
            folder = Path(scratch) / name
            folder.mkdir()
            kernel = wrong(SHOWN[name], folder)
            python = os.environ.get("PYTHON", sys.executable)
            command = [python, "-m", "syncverify", "check", kernel.name, "-o", "html:report.html"]
            done = subprocess.run([*command, "-o", "/dev/null"], cwd=folder, check=False)
            if done.returncode != 1:
                raise SystemExit(f"{name}: the kernel is not refuted (status {done.returncode})")
            for width, height, dark in WINDOWS:
                page = browser.new_page(
                    viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
                )
                failed: list[str] = []
                page.on("pageerror", lambda e, failed=failed: failed.append(str(e)))
                page.goto((folder / "report.html").as_uri())
                wide = page.evaluate("document.documentElement.scrollWidth")
                page.screenshot(path=out / f"{name}-{width}{'-dark' if dark else ''}.png", full_page=True)
                print(f"{name:14} {width:5} {'dark' if dark else 'light':6} page {wide} wide {failed or ''}")
                too_wide += wide > width or bool(failed)
                page.close()
        browser.close()
    return min(too_wide, 1)


if __name__ == "__main__":
    sys.exit(main())
