"""Result tables as HTML: pandas Styler with captions, header scopes, number formats and bars."""

import re
from collections.abc import Callable, Collection, Mapping
from functools import partial
from hashlib import sha256
from typing import Any, cast

import pandas as pd
from markupsafe import Markup, escape
from pandas.io.formats.style import Styler

from evalkit.measures import JUDGED, METRIC_LABELS, MISSING
from evalkit.views.markup import case_link, render

ROWS = 200
"""Rows that a table shows at most."""

LONG_TEXT = 40
BAR = "rgba(87,144,252,.30)"
SCORE_COLUMNS = (*METRIC_LABELS, JUDGED)
LABELS = {
    **METRIC_LABELS,
    "case_id": "case",
    "k": "K",
    "n": "n",
    "n_facts": "n with facts",
    "judged": "judged@K",
    "result_count": "results",
    "top_score": "top score",
    "document_id": "document",
    "chunk_id": "chunk",
}

_BLANK = re.compile(r'<th class="(blank|index_name)[^>]*>&nbsp;</th>')
Format = Callable[[Any], str | Markup]
Row = Any
"""A row of a table as a named tuple or a series; its fields are those of ``docs/architecture.md``."""


def rows_of(frame: pd.DataFrame) -> list[Row]:
    """Give the rows of a table as named tuples."""
    return list(frame.itertuples(index=False))


def number(value: float | None, digits: int = 3) -> str:
    """Write a score with a fixed number of digits, a missing one as a dash."""
    return MISSING if value is None or pd.isna(value) else f"{value:.{digits}f}"


def count(value: float | None) -> str:
    """Write a count with thousands apart, a missing one as a dash."""
    return MISSING if value is None or pd.isna(value) else f"{int(value):,}"


def yes_no(value: object) -> str:
    """Write a truth value in words, a missing one as a dash."""
    return MISSING if value is None or pd.isna(cast("bool", value)) else ("yes" if value else "no")


def table(
    frame: pd.DataFrame,
    caption: str,
    *,
    labels: Mapping[str, str] | None = None,
    formats: Mapping[str, Format] | None = None,
    bars: Collection[str] = SCORE_COLUMNS,
    linked: Collection[str] = (),
    dense: bool = False,
    limit: int = ROWS,
) -> Markup:
    """Make a table that can be read by eye, by a screen reader and on paper.

    Parameters
    ----------
    frame
        What to show, in its order; the first column names the rows. Columns may have two levels (group, name). A
        column with `Markup` must be of objects, since text columns of pandas turn it into plain text.
    caption
        What the table holds; stands above it.
    labels
        Names of columns for readers, beside the usual ones in `LABELS`.
    formats
        How to write the values of a column, by column name (of the last level), beside the usual ones: scores with
        three digits, counts with thousands apart, truth values in words. Results that are not `Markup` are escaped.
    bars
        Columns that show a bar from 0 to 1 behind the number.
    linked
        Cases whose evidence stands in the same page: a column ``case_id`` links to it.
    dense
        Less room between columns, for wide tables.
    limit
        Rows to show; the caption says when there are more.

    Returns
    -------
    Markup
        The table in a box that scrolls sideways on a narrow screen; for no rows the caption and "none".
    """
    names = {**LABELS, **(labels or {})}
    if frame.empty:
        return render("<p><strong>{{ caption }}</strong>: none.</p>", caption=caption)
    if len(frame) > limit:
        caption = f"{caption}; the first {limit} of {len(frame)} rows"
        frame = frame.head(limit)
    head, *body = list(frame.columns)
    writers = {column: _writer(column, frame[column], formats or {}, linked) for column in frame.columns}
    rows = [_escaped(writers[head], value) for value in frame[head]]
    cells = frame[body].reset_index(drop=True)
    cells.columns = cells.columns.set_names([None] * cells.columns.nlevels)
    styler = _styler(cells, names, {column: writers[column] for column in body}, bars, caption)
    html = cast("Any", styler).format_index(lambda position: rows[position], axis=0).to_html()
    return render(
        """<div class="ek-scroll{{ ' ek-dense' if dense }}" role="region" tabindex="0" aria-label="{{ caption }}">
        {{ html }}</div>""",
        caption=caption,
        dense=dense,
        html=_with_scopes(html, names.get(_last(head), _last(head)), frame.columns.nlevels),
    )


def key_values(rows: Mapping[str, object], caption: str) -> Markup:
    """Make a table of names and values, such as the settings of a run; None is shown as a dash."""
    return render(
        """<div class="ek-scroll" role="region" tabindex="0" aria-label="{{ caption }}"><table class="ek-values">
        <caption>{{ caption }}</caption><tbody>
        {% for name, value in rows.items() %}<tr><th scope="row">{{ name }}</th>
        <td>{{ missing if value is none else value }}</td></tr>{% endfor %}</tbody></table></div>""",
        rows=rows,
        caption=caption,
        missing=MISSING,
    )


def _last(column: object) -> str:
    return str(column[-1]) if isinstance(column, tuple) else str(column)


def _writer(
    column: object, values: "pd.Series[Any]", formats: Mapping[str, Format], linked: Collection[str]
) -> Format:
    name = _last(column)
    if name in formats:
        return formats[name]
    if name == "case_id":
        known = set(linked)
        return lambda value: case_link(value, known)
    if pd.api.types.is_bool_dtype(values):
        return yes_no
    if pd.api.types.is_integer_dtype(values):
        return count
    if pd.api.types.is_float_dtype(values):
        return number
    return _text


def _text(value: Any) -> str | Markup:  # noqa: ANN401 - a cell of any type
    if isinstance(value, Markup):
        return value
    return MISSING if value is None or pd.isna(value) else str(value)


def _escaped(writer: Format, value: object) -> str:
    return str(escape(writer(value)))


def _styler(
    cells: pd.DataFrame,
    names: Mapping[str, str],
    writers: Mapping[Any, Format],
    bars: Collection[str],
    caption: str,
) -> Styler:
    digest = sha256(f"{caption}{cells.to_csv()}".encode()).hexdigest()[:10]
    styler: Any = Styler(cells, uuid=digest, cell_ids=False, caption=str(escape(caption)))
    for column, writer in writers.items():
        styler.format(partial(_escaped, writer), subset=[column])
    numeric = [column for column in cells.columns if pd.api.types.is_numeric_dtype(cells[column])]
    right = [{"selector": "", "props": "text-align:right"}]
    styler.set_table_styles(dict.fromkeys(numeric, right), overwrite=False)
    long = [
        column for column in cells.columns if column not in numeric and _longest(cells[column]) > LONG_TEXT
    ]
    styler.set_table_styles(
        {column: [{"selector": "", "props": "min-width:15rem"}] for column in long}, overwrite=False
    )
    barred = [column for column in numeric if _last(column) in bars]
    if barred:
        styler.bar(subset=barred, vmin=0, vmax=1, color=BAR)
    for level in range(cells.columns.nlevels):
        styler.format_index(lambda label: str(escape(names.get(str(label), str(label)))), axis=1, level=level)
    return cast("Styler", styler)


def _longest(values: "pd.Series[Any]") -> int:
    return max((len(value) for value in values if isinstance(value, str)), default=0)


def _with_scopes(html: str, corner: str, levels: int) -> Markup:
    """Add the scopes that Styler leaves out, and the name of the row headers; cell texts are escaped before."""
    style, mark, body = html.partition("<table")
    style = style.replace("  width: 10em;\n", "")
    body = re.sub(r'<th ([^>]*class="row_heading)', r'<th scope="row" \1', body)
    body = re.sub(r'<th ([^>]*class="col_heading[^>]*colspan)', r'<th scope="colgroup" \1', body)
    body = re.sub(r'<th (?!scope)([^>]*class="col_heading)', r'<th scope="col" \1', body)
    name = f'<th scope="col" rowspan="{levels}">{escape(corner)}</th>'
    body = _BLANK.sub(lambda _: name, body, count=1)
    return Markup(style + mark + _BLANK.sub("", body))
