"""The frame of every page: style, script, security policy, links, contents, boxes for wide tables."""

import base64
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path

from bs4 import BeautifulSoup, Tag
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure
from pygments.formatters.html import HtmlFormatter

from evalkit.plots.style import png

TEMPLATES = Path(__file__).parent / "templates"


def whole_page(
    title: str,
    content: Markup,
    links: Iterable[Mapping[str, object]],
    footer: str,
    *,
    contents: Iterable[Mapping[str, str]] = (),
    code: bool = False,
) -> str:
    """Put the frame of a page around its content.

    Parameters
    ----------
    title
        Title of the document.
    content
        HTML of the main part.
    links
        Pages to lead to: ``title, href, current``.
    footer
        A sentence at the end.
    contents
        Headings of this page: ``anchor, text``, as `contents_of` gives them.
    code
        Whether the style of highlighted code is needed.

    Returns
    -------
    str
        A whole HTML document that holds everything it shows. Its security policy lets the browser load nothing and
        run no script but the one of `templates/page.js`.
    """
    script = (TEMPLATES / "page.js").read_text(encoding="utf-8").strip()
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8") + (_code_style() if code else "")
    digest = base64.b64encode(sha256(script.encode()).digest()).decode()
    return fill(
        "page.html.j2",
        title=title,
        content=content,
        pages=list(links),
        footer=footer,
        contents=list(contents),
        style=Markup(style),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )


def fill(template: str, **values: object) -> Markup:
    """Fill a template of ``evalkit/templates``; every value that is not `Markup` is escaped."""
    return Markup(_environment().get_template(template).render(**values))


@cache
def _environment() -> Environment:
    return Environment(loader=PackageLoader("evalkit"), autoescape=True, undefined=StrictUndefined)


def _code_style() -> str:
    light = HtmlFormatter(style="default").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    ground = ".highlight,.highlight pre{background:none}"
    return f"{light}\n@media screen and (prefers-color-scheme:dark){{{dark}}}\n{ground}"


def embedded(figure: Figure, alt: str) -> Markup:
    """Make an image element of a figure, with its alt text."""
    image = base64.b64encode(png(figure)).decode("ascii")
    return Markup(
        '<figure tabindex="0"><img src="data:image/png;base64,{}" width="{}" alt="{}"></figure>'
    ).format(image, round(figure.get_figwidth() * 96), alt)


def contents_of(soup: BeautifulSoup) -> list[dict[str, str]]:
    """List the headings of the second level that can be linked."""
    listed = []
    for heading in soup.select("h2[id]"):
        link = heading.select_one(".anchor-link")
        text = heading.get_text().removesuffix(link.get_text() if link else "")
        listed.append({"anchor": str(heading["id"]), "text": text.strip()})
    return listed


def make_ids_unique(soup: BeautifulSoup) -> None:
    """Give ids that stand more than once a number, and the link of such a heading to itself too."""
    seen: dict[str, int] = {}
    for element in soup.select("[id]"):
        name = str(element["id"])
        seen[name] = seen.get(name, 0) + 1
        if seen[name] > 1:
            element["id"] = f"{name}-{seen[name]}"
            for link in element.select("a.anchor-link"):
                link["href"] = f"#{element['id']}"


def name_anchor_links(soup: BeautifulSoup) -> None:
    """Say where the link of a heading leads, for those who hear only its sign."""
    for link in soup.select("a.anchor-link"):
        heading = link.parent.get_text().removesuffix(link.get_text()) if isinstance(link.parent, Tag) else ""
        link["aria-label"] = f"Link to {heading.strip()}"


def let_tables_scroll(soup: BeautifulSoup) -> None:
    """Put tables that bring no box of their own into one that scrolls, also by keyboard."""
    for table in soup.select("table"):
        if table.find_parent(class_="ek-scroll") is None:
            caption = table.find("caption")
            name = caption.get_text().strip() if caption else "Table"
            box = soup.new_tag(
                "div", attrs={"class": "scroll", "role": "region", "tabindex": "0", "aria-label": name}
            )
            table.wrap(box)
