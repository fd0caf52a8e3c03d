"""What tests of HTML need: hostile text, parts of a page, a run in which everything happens."""

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
