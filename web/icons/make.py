"""Draw the mark and the icons made from it: a claw that holds a coil.

Run it with `.venv/bin/python web/icons/make.py [chromium]` when the mark changes; it writes web/public/icon*.svg and .png and
web/src/parts/mark.ts. The pictures are kept in the tree, so that building the panel needs no browser.
"""

import math
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import sync_playwright

WEB = Path(__file__).resolve().parent.parent
PUBLIC = WEB / "public"
SIDE = 64
TILE, INK = "#0b6e63", "#f4fbf9"
Point = tuple[float, float]


def claw(part: float) -> tuple[Point, float]:
    """A C with two tips that bend inwards; its point at `part` of the way, and half its width there."""
    angle = math.radians(24 + 312 * part)
    tip = abs(part - 0.5) * 2
    radius = 23.0 - 6.5 * max(0.0, (tip - 0.55) / 0.45) ** 2
    width = 5.6 * (1 - tip**2.0)
    return (34.5 + radius * math.cos(angle), 32 - radius * math.sin(angle)), width


def coil(part: float) -> tuple[Point, float]:
    """What it holds: a coil of even width."""
    angle = math.radians(225 + 585 * part)
    radius = 1.4 + 10.0 * part
    return (36.2 + radius * math.cos(angle), 32.2 + radius * math.sin(angle)), 1.9


def outline(line: Callable[[float], tuple[Point, float]], steps: int) -> str:
    """A line of changing width as one closed path with round ends."""
    left: list[Point] = []
    right: list[Point] = []
    for step in range(steps + 1):
        part = step / steps
        (x, y), width = line(part)
        (back_x, back_y), (ahead_x, ahead_y) = line(max(0.0, part - 0.001))[0], line(min(1.0, part + 0.001))[0]
        length = math.hypot(ahead_x - back_x, ahead_y - back_y)
        across = (-(ahead_y - back_y) / length, (ahead_x - back_x) / length)
        left.append((x + across[0] * width, y + across[1] * width))
        right.append((x - across[0] * width, y - across[1] * width))
    first, last = line(0)[1], line(1)[1]
    there = " ".join(f"{x:.1f} {y:.1f}" for x, y in left[1:])
    back = " ".join(f"{x:.1f} {y:.1f}" for x, y in right[-2::-1])
    turn = f"A{last:.2f} {last:.2f} 0 0 0 {right[-1][0]:.1f} {right[-1][1]:.1f}"
    close = f"A{first:.2f} {first:.2f} 0 0 0 {left[0][0]:.1f} {left[0][1]:.1f}"
    return f"M{left[0][0]:.1f} {left[0][1]:.1f}L{there}{turn}L{back}{close}Z"


def mark() -> str:
    """Both parts."""
    return outline(claw, 64) + outline(coil, 60)


def picture(path: str, *, corner: int, scale: float) -> str:
    """The mark on its tile."""
    shift = SIDE / 2 * (1 - scale)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIDE} {SIDE}">'
        f'<rect width="{SIDE}" height="{SIDE}" rx="{corner}" fill="{TILE}"/>'
        f'<path transform="translate({shift:g} {shift:g}) scale({scale:g})" fill="{INK}" d="{path}"/></svg>\n'
    )


def main() -> int:
    """Write the mark, the SVG and the PNGs."""
    path = mark()
    chromium = sys.argv[1] if len(sys.argv) > 1 else shutil.which("chromium") or ""
    (WEB / "src" / "parts" / "mark.ts").write_text(
        f"/** The mark, drawn by icons/make.py: a claw that holds a coil. */\nexport const MARK =\n  '{path}';\n",
        encoding="utf-8",
    )
    (PUBLIC / "icon.svg").write_text(picture(path, corner=14, scale=0.92), encoding="utf-8")
    wanted = {"icon-192.png": (192, 14, 0.92), "icon-512.png": (512, 14, 0.92), "icon-mask-512.png": (512, 0, 0.72)}
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=chromium or None, args=["--no-sandbox"])
        for name, (size, corner, scale) in wanted.items():
            page = browser.new_page(viewport={"width": size, "height": size})
            page.set_content(
                f"<style>body{{margin:0}}svg{{display:block}}</style>{picture(path, corner=corner, scale=scale)}"
            )
            page.screenshot(path=str(PUBLIC / name), omit_background=True)
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
