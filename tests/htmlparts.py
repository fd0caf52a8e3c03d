"""What tests of HTML need: hostile text, parts of a page, a run in which everything happens."""

import base64
import hashlib
import re
from dataclasses import replace
from html.parser import HTMLParser

from bs4 import BeautifulSoup, Tag

from tests.smallruns import small_run

SCRIPT = '<script>alert(1)</script><img src=x onerror="alert(2)"></td>'


def soup(html) -> Tag:
    return html if isinstance(html, Tag) else BeautifulSoup(getattr(html, "data", html), "html.parser")


def text_of(html) -> str:
    return " ".join(soup(html).get_text(" ").split())


def changed(run, **tables):
    """The same run with other tables."""
    copy = replace(run)
    vars(copy).update(tables)
    return copy


def rows(html, caption: str) -> list[list[str]]:
    (found,) = [one for one in soup(html).find_all("table") if one.caption.get_text().startswith(caption)]
    return [
        [" ".join(cell.get_text(" ").split()) for cell in row(["th", "td"])] for row in found.find_all("tr")
    ]


def assert_self_contained(soup) -> None:
    """Whole HTML that loads nothing, runs its own script alone, and leads to pages beside it."""
    for element in soup.select("[src]"):
        assert element["src"].startswith("data:")
    assert soup.select("link, iframe, object, embed, base, form") == []
    policy = soup.select_one('meta[http-equiv="Content-Security-Policy"]')["content"]
    (script,) = soup.select("script")
    digest = base64.b64encode(hashlib.sha256(script.string.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert soup.html["lang"] == "en"
    assert soup.title.string
    assert len(soup.select("main")) == len(soup.select("h1")) == 1
    assert all(image["alt"] for image in soup.select("img"))
    ids = [element["id"] for element in soup.select("[id]")]
    assert len(ids) == len(set(ids))
    for link in soup.select("a[href]"):
        assert re.fullmatch(r"(#|[\w./-]+\.(html|ipynb)(#|$)).*", link["href"]), link


class Tags(HTMLParser):
    """Refuses tags that are closed in another order than they were opened."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def eventful_run():
    """Complete, complete only beyond K, never, without facts; one unsupported question accepted."""
    return small_run(
        {"whole": [1, 2], "late": [1, 5], "lost": [None]},
        relevant={"plain": [2]},
        unsupported={"refused": False, "taken": True},
    )
