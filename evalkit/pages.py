"""Self-contained HTML: executed notebooks as pages, the front page of a run.

A page holds everything it shows and forbids the browser every request and every script but its own.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from bs4 import BeautifulSoup
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from evalkit.intervals import mean_intervals
from evalkit.layout import (
    TEMPLATES,
    contents_of,
    embedded,
    fill,
    let_tables_scroll,
    make_ids_unique,
    name_anchor_links,
    whole_page,
)
from evalkit.plots.scores import metrics_over_k
from evalkit.runs import Run
from evalkit.views import overview

FRONT_PAGE = "report.html"
OVERVIEW = "index.html"
PAGES = "pages"
"""Folder under outputs of the notebooks that were run by themselves."""

_EVIDENCE_PAGE = "evaluate.html"


@dataclass(frozen=True)
class NotebookPage:
    """An executed notebook that becomes a page.

    Attributes
    ----------
    name
        Name of the notebook; its page is ``<name>.html``.
    notebook
        With its outputs.
    """

    name: str
    notebook: NotebookNode

    @property
    def title(self) -> str:
        """First heading of the notebook, its name where there is none."""
        found = re.search(r"^# +(.+)$", self._introduction, re.MULTILINE)
        return found[1].strip() if found else self.name

    @property
    def lead(self) -> str:
        """First paragraph under the heading, on one line; empty where there is none."""
        paragraphs = [part for part in self._introduction.split("\n\n") if not part.lstrip().startswith("#")]
        return " ".join(paragraphs[0].replace("*", "").split()) if paragraphs else ""

    @property
    def _introduction(self) -> str:
        return next((str(cell.source) for cell in self.notebook.cells if cell.cell_type == "markdown"), "")


def notebook_page(page: NotebookPage, run: Run, pages: Iterable[NotebookPage], *, code: bool = False) -> str:
    """Render an executed notebook.

    Parameters
    ----------
    page
        The notebook.
    run
        The run that it belongs to, for title and footer.
    pages
        All notebooks of the report, for the links between them.
    code
        Show the code above the outputs; hidden by default.

    Returns
    -------
    str
        A whole HTML document. Headings have anchors and stand in a list of contents; wide tables scroll in
        themselves; images carry the ``alt`` of their output's metadata.
    """
    return _whole(
        page,
        title=f"{page.title} · {run.record.dataset.name} · {run.run_id}",
        links=_links(pages, page.name),
        footer=f"Run {run.run_id} of {run.record.dataset.name}, version {run.record.dataset.version}.",
        code=code,
    )


def single_page(page: NotebookPage, *, code: bool = False, listed: bool = False) -> str:
    """Render an executed notebook that belongs to no single run, such as a comparison.

    Parameters
    ----------
    page
        The notebook.
    code
        Show the code above the outputs; hidden by default.
    listed
        Lead back to the overview of all runs, which lists the page.

    Returns
    -------
    str
        A whole HTML document like that of `notebook_page`, without links to other pages of a report.
    """
    links: list[dict[str, Any]] = [{"title": page.title, "href": f"{page.name}.html", "current": True}]
    if listed:
        links.insert(0, {"title": "All runs", "href": f"../../{OVERVIEW}", "current": False})
    return _whole(page, title=page.title, links=links, footer=f"Notebook {page.name}.", code=code)


def _whole(page: NotebookPage, *, title: str, links: list[dict[str, Any]], footer: str, code: bool) -> str:
    exporter = HTMLExporter(
        template_name="cells",
        extra_template_basedirs=[str(TEMPLATES)],
        exclude_input=not code,
        exclude_input_prompt=True,
        exclude_output_prompt=True,
    )
    fragment, _ = exporter.from_notebook_node(page.notebook)
    soup = BeautifulSoup(fragment, "html.parser")
    make_ids_unique(soup)
    name_anchor_links(soup)
    let_tables_scroll(soup)
    return whole_page(
        title=title,
        content=Markup(str(soup)),
        links=links,
        footer=footer,
        contents=contents_of(soup),
        code=code or soup.select_one(".highlight") is not None,
    )


def front_page(run: Run, pages: Iterable[NotebookPage], *, code: bool = False) -> str:
    """Render the front page of a run: verdict, headline figures, links, settings, provenance.

    Parameters
    ----------
    run
        A finished run.
    pages
        The notebooks of its report.
    code
        Whether pages with code stand beside the others.

    Returns
    -------
    str
        A whole HTML document; links to the evidence of a case lead to the page of the ``evaluate`` notebook.
    """
    shown = list(pages)
    body = fill(
        "front.html.j2",
        run=run,
        verdict=_html(overview.verdict(run)),
        headline=_html(overview.headline(run)),
        figure=embedded(*metrics_over_k(mean_intervals(run.scores, ["k"]))),
        settings=_html(overview.what_was_run(run)),
        provenance=_html(overview.provenance(run)),
        reports=[
            {
                "href": f"{page.name}.html",
                "title": page.title,
                "lead": page.lead,
                "notebook": f"{page.name}.ipynb",
                "code": f"{page.name}.code.html" if code else None,
            }
            for page in shown
        ],
    )
    soup = BeautifulSoup(body, "html.parser")
    for link in soup.select('a[href^="#case-"]'):
        link["href"] = f"{_EVIDENCE_PAGE}{link['href']}"
    return whole_page(
        title=f"Report · {run.record.dataset.name} · {run.run_id}",
        content=Markup(str(soup)),
        links=_links(shown, None),
        footer=f"Run {run.run_id}, finished {run.record.finished:%Y-%m-%d %H:%M:%S} UTC.",
        contents=contents_of(soup),
    )


def _links(pages: Iterable[NotebookPage], current: str | None) -> list[dict[str, Any]]:
    front = {"title": "Report", "href": FRONT_PAGE, "current": current is None}
    others = [
        {"title": page.title, "href": f"{page.name}.html", "current": page.name == current} for page in pages
    ]
    return [{"title": "All runs", "href": f"../../../{OVERVIEW}", "current": False}, front, *others]


def _html(output: Any) -> Markup:  # noqa: ANN401 - IPython's HTML has no types
    """Take over what a view made; views escape every text that comes from data."""
    return Markup(output.data)
