"""What a model writes, as the panel lays it out: in a real browser, with the policies of the real server."""

import pytest

from tests.panel.house import ROOT, House
from tests.panel.window import Look, Window

pytestmark = pytest.mark.slow

SHOWN = """([module, text]) => import(module).then(({markdown}) => {
    const place = document.createElement('div');
    place.append(markdown(text));
    return {
        text: place.textContent.trim(),
        tags: [...place.querySelectorAll('*')].map((each) => each.localName),
        attributes: [...place.querySelectorAll('*')].flatMap((each) => [...each.attributes].map((one) => one.name)),
        hrefs: [...place.querySelectorAll('a[href]')].map((each) => each.getAttribute('href')),
        links: [...place.querySelectorAll('a[href]')].map((each) => [each.target, each.rel]),
    };
})"""


@pytest.fixture(scope="module")
def read(browser, tmp_path_factory):
    """Has a text read by the panel's own code, on the panel's own page."""
    house = House(tmp_path_factory.mktemp("markdown"))
    window = Window(browser, house, Look("desktop", "light"))
    window.open("")
    (module,) = (ROOT / "src" / "coilclaw" / "panel" / "assets").glob("markdown-*.js")
    yield lambda text: window.page.evaluate(SHOWN, [f"/assets/{module.name}", text])
    assert not [url for url in window.asked if not url.startswith((house.origin, "about:"))]
    window.close()
    house.close()


def test_it_is_laid_out(read):
    shown = read("# Today\n\n1. **bread**\n2. `milk`\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n~~old~~ *new*")
    assert [tag for tag in shown["tags"] if tag not in ("tr", "thead", "tbody")] == [
        "h1", "ol", "li", "strong", "li", "code", "table", "th", "th", "td", "td", "p", "s", "em",
    ]  # fmt: skip
    assert shown["attributes"] == []


@pytest.mark.parametrize(
    "text",
    [
        "<img src=x onerror=alert(1)>",
        "<script>alert(1)</script>",
        "<form action=/v1/estop method=post><button>Approve</button></form>",
        "<style>* { display: none }</style>",
        '<a href="#/approvals" onclick="x()">Approve</a>',
        '<svg><use href="x"/></svg><math><mtext></mtext></math>',
        '<div id=main class=button style="position:fixed">over</div>',
    ],
)
def test_html_is_the_text_it_is(read, text):
    shown = read(f"before {text}")
    assert shown["tags"] == ["p"]
    assert shown["attributes"] == []
    assert shown["text"] == f"before {text}"


def test_nothing_is_loaded_a_picture_is_its_words(read):
    shown = read("![seen](http://127.0.0.1:9/x?secret) ![](http://127.0.0.1:9/y)")
    assert "img" not in shown["tags"]
    assert shown["text"].startswith("seen ")


@pytest.mark.parametrize(
    "target",
    ["#/approvals/act_1", "/v1/audit/export", "javascript:alert(1)", "data:text/html,y", "//evil.example/x",
     "blob:https://a.example/b", "JaVaScRiPt:x", "file:///etc/passwd", "mailto:a@b.example"],
)  # fmt: skip
def test_a_link_points_at_nothing_of_ours_and_runs_nothing(read, target):
    assert read(f"[Approve]({target})")["hrefs"] == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[the bank](https://evil.example/a)", "the bank (evil.example)"),
        ("[https://bank.example](https://evil.example/)", "https://bank.example (evil.example)"),
        (
            "https://bank.example@evil.example/login",
            "https://bank.example@evil.example/login (evil.example)",
        ),
        ("see https://bank.example/a.", "see https://bank.example/a."),
        ("https://b\u0430nk.example", "https://b\u0430nk.example (xn--bnk-6cd.example)"),
    ],
)
def test_a_link_says_where_it_leads_when_its_words_do_not(read, text, told):
    shown = read(text)
    assert shown["text"] == told
    assert shown["links"] == [["_blank", "noopener noreferrer"]]


def test_an_address_in_a_sentence_is_a_link_without_what_stands_around_it(read):
    shown = read("(“fetch https://example.com”) or https://a.example/b, https://c.example?d=e.")
    assert shown["hrefs"] == ["https://example.com", "https://a.example/b", "https://c.example?d=e"]
    assert read("`https://example.com`")["hrefs"] == []
