"""Every screen, one after the other: it stands still, fits, and can be read by everyone, by day and by night."""

import pytest

from tests.panel.house import House
from tests.panel.lived_in import live_in
from tests.panel.window import SIZES, Look, Window

STILL = 0.05
"""The sum of layout shifts that may come with loading a screen."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lived_in(browser, tmp_path_factory):
    """One window on one house, and what happened in it; who uses it leaves it as it is."""
    house = House(tmp_path_factory.mktemp("lived-in"), environ={"COILCLAW_FORGE_ENABLED": "true"})
    window = Window(browser, house, Look("desktop", "light"), still=True)
    traces = live_in(window)
    yield window, traces
    window.close()
    house.close()


def walk(lived_in, size, *, anew):
    """Go from screen to screen in a window of a size; what is wrong on the way is told at the end, all of it."""
    window, traces = lived_in
    width, height = SIZES[size]
    window.page.set_viewport_size({"width": width, "height": height})
    window.look = Look(size, "light")
    for name, place in traces.screens().items():
        (window.open if anew else window.go)(place)
        yield window, name
    faults, window.faults = list(dict.fromkeys(window.faults)), []
    assert faults == [], "\n".join(faults)


@pytest.mark.parametrize("size", ["phone", "desktop"])
def test_every_screen_stands_still_fits_and_can_be_read_by_everyone(lived_in, size):
    for window, name in walk(lived_in, size, anew=True):
        window.scene(f"screen-{name}")
        moved, what = window.shifts()
        if moved > STILL:
            window.faults.append(f"{size} {name}: jumps by {moved:.3f}: {what}")
        by_night(window, name)


def by_night(window, name):
    """Only colours change: the rest was looked at by day."""
    window.look = Look(window.look.size, "dark")
    window.page.emulate_media(color_scheme="dark")
    window.settled()
    window.shoot(f"screen-{name}")
    if window.look.size == "phone":  # the colours are the same in every size
        window.accessible(name, colours_only=True)
    window.page.emulate_media(color_scheme="light")
    window.look = Look(window.look.size, "light")


@pytest.mark.parametrize("size", ["narrow", "zoomed"])
def test_every_screen_reflows_when_it_is_enlarged(lived_in, size):
    for window, name in walk(lived_in, size, anew=False):
        window.settled()
        window.fits(name)
        cut_off(window, name)


OUT_OF_REACH = """() => {
    const sideways = (each) => {
        for (let at = each.parentElement; at; at = at.parentElement) {
            const moves = ['auto', 'scroll'].includes(getComputedStyle(at).overflowX);
            if (moves && at.scrollWidth > at.clientWidth + 1) return true;
        }
        return false;
    };
    return [...document.querySelectorAll('a[href], button, input, select, textarea')]
        .filter((each) => each.checkVisibility({visibilityProperty: true}) && !each.closest('.sr, .skip'))
        .filter((each) => {
            const box = each.getBoundingClientRect();
            return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1) && !sideways(each);
        })
        .map((each) => `${each.tagName} ${each.textContent.trim().slice(0, 40)}`);
}"""


def cut_off(window, name):
    """What can be pressed lies inside the window, or can be scrolled to."""
    lost = window.page.evaluate(OUT_OF_REACH)
    if lost:
        window.faults.append(f"{window.look} {name}: out of reach: {lost[:3]}")
