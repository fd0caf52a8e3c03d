"""Escaped HTML for notebooks: page parts, banners, anchors.

Every text that comes from data passes through Jinja's autoescaping or `markupsafe.escape`; functions return
`Markup`, so that what is already HTML cannot be confused with text. Colours are tints of the surrounding ones:
the same markup reads well in JupyterLab's and a page's light and dark theme, on a phone and on paper.
"""

import re
from collections.abc import Collection
from functools import cache
from hashlib import sha256
from typing import Literal

from IPython.display import HTML
from jinja2 import Environment, Template
from markupsafe import Markup, escape

CSS = """
.ek{font-size:.95rem;line-height:1.5;max-width:76rem;overflow-wrap:anywhere}
.ek p{margin:.35em 0}
.ek h3,.ek h4{margin:1.1em 0 .3em;line-height:1.3}
.ek h3{font-size:1.15rem}.ek h4{font-size:1rem}
.ek a{text-decoration:underline}
.ek .ek-scroll{overflow-x:auto;margin:.6em 0}
.ek.ek table{border-collapse:collapse;min-width:min(100%,22rem);table-layout:auto;margin:0;font-size:.875rem;
 font-variant-numeric:tabular-nums;overflow-wrap:normal}
.ek.ek caption{caption-side:top;text-align:left;font-weight:600;padding:.3em .2em;color:inherit}
.ek.ek th,.ek.ek td{text-align:left;vertical-align:top;padding:.3em .7em;max-width:34rem;
 border-bottom:1px solid rgba(128,128,128,.35)}
.ek td.data{white-space:pre-line}
.ek.ek .ek-values td{overflow-wrap:anywhere}
.ek.ek th{font-weight:600}.ek.ek thead th{vertical-align:bottom}
.ek.ek tbody th,.ek.ek thead tr:first-child>th:first-child{position:sticky;left:0;
 background:var(--jp-layout-color0,Canvas);max-width:14rem}
.ek.ek thead th[colspan]{border-left:1px solid rgba(128,128,128,.35);
 text-align:center!important}
.ek .ek-banner{border:1px solid;border-left-width:.4rem;border-radius:.3rem;padding:.6em .9em;margin:.6em 0}
.ek .ek-good{border-color:#2e8b57;background:rgba(46,139,87,.12)}
.ek .ek-note{border-color:#5790fc;background:rgba(87,144,252,.12)}
.ek .ek-warning{border-color:#c77700;background:rgba(248,156,32,.14)}
.ek .ek-bad{border-color:#d0312d;background:rgba(228,37,54,.12)}
.ek .ek-case{border-top:2px solid rgba(128,128,128,.5);margin-top:.9em;padding:.4em 0;scroll-margin-top:1rem}
.ek .ek-case:target{outline:3px solid #5790fc;outline-offset:.3em}
.ek .ek-case:target::details-content{content-visibility:visible;block-size:auto}
.ek summary{cursor:pointer;padding:.2em 0}
.ek .ek-chip{display:inline-block;border:1px solid;border-radius:.8em;padding:0 .55em;font-size:.82em;
 font-weight:600;white-space:nowrap}
.ek .ek-yes{background:rgba(46,139,87,.18)}.ek .ek-no{background:rgba(228,37,54,.16);border-style:dashed}
.ek mark{background:rgba(250,200,0,.38);color:inherit;border-bottom:2px solid;padding:0 .1em}
.ek .ek-text{white-space:pre-line;max-height:16em;overflow:auto;min-width:16rem}
.ek ul,.ek ol{margin:.3em 0;padding-left:1.4em}.ek li{margin:.35em 0}
.ek code{background:none;padding:0;font-size:.95em;color:inherit}
.ek.ek .ek-dense th,.ek.ek .ek-dense td{padding:.25em .33em}
@media print{.ek details::details-content{content-visibility:visible;block-size:auto}
 .ek .ek-scroll,.ek .ek-text{overflow:visible;max-height:none}
 .ek tr,.ek .ek-banner,.ek li{break-inside:avoid}.ek h3,.ek h4{break-after:avoid}}
@media (max-width:40rem){.ek.ek th,.ek.ek td{padding:.25em .4em}
 .ek.ek tbody th{max-width:9rem;overflow-wrap:break-word}.ek.ek caption{max-width:calc(100vw - 1.7rem)}}
"""

_ENVIRONMENT = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]*")
Kind = Literal["good", "note", "warning", "bad"]
_KIND_WORDS = {"good": "", "note": "Note: ", "warning": "Warning: ", "bad": "Not met: "}


def render(template: str, **values: object) -> Markup:
    """Fill a Jinja template; every value that is not `Markup` is escaped."""
    return Markup(_compiled(template).render(**values))


@cache
def _compiled(template: str) -> Template:
    return _ENVIRONMENT.from_string(template)


def page(*parts: Markup) -> HTML:
    """Join parts into one output of a notebook, with the style that they need."""
    body = Markup("\n").join(parts)
    return HTML(f'<style>{CSS}</style>\n<div class="ek">\n{body}\n</div>')  # type: ignore[no-untyped-call]


def banner(kind: Kind, title: str, *paragraphs: str | Markup) -> Markup:
    """Say something that must not be overlooked.

    Parameters
    ----------
    kind
        ``good``, ``note``, ``warning`` or ``bad``; stands as a word before the title too, not as colour alone.
    title
        The message in one sentence.
    *paragraphs
        Further sentences; text is escaped, `Markup` is not.
    """
    return render(
        """<div class="ek-banner ek-{{ kind }}" role="note">
        <p><strong>{{ word }}{{ title }}</strong></p>
        {% for paragraph in paragraphs %}<p>{{ paragraph }}</p>{% endfor %}</div>""",
        kind=kind,
        word=_KIND_WORDS[kind],
        title=title,
        paragraphs=paragraphs,
    )


def case_anchor(case_id: str) -> str:
    """Give the id of the evidence of a case in a page: ``case-<id>``, with a hash where the id is no HTML name."""
    if _SAFE_ID.fullmatch(case_id):
        return f"case-{case_id}"
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", case_id).strip("-")
    return f"case-{plain}-{sha256(case_id.encode()).hexdigest()[:8]}"


def case_link(case_id: str, linked: Collection[str]) -> Markup:
    """Link a case to its evidence in the same page.

    Parameters
    ----------
    case_id
        The case.
    linked
        Cases whose evidence stands in the page; another one is named without a link.
    """
    if case_id not in linked:
        return escape(case_id)
    return render('<a href="#{{ anchor }}">{{ case }}</a>', anchor=case_anchor(case_id), case=case_id)
