"""HTML of runs, indexing and categories: what must be said, what must be linked, and texts of data escaped."""

from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest
from bs4 import BeautifulSoup, Tag
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup, escape

from evalkit.chunking import chunk_documents
from evalkit.contents import Verification
from evalkit.dataset import load_dataset
from evalkit.errors import InputError
from evalkit.indexing import IndexReport, index
from evalkit.runs import load_run
from evalkit.settings import IndexSettings
from evalkit.views import categories, indexed, overview
from evalkit.views.cases import case_evidence, rank_outside, shown_cases, weakest_first
from evalkit.views.markup import banner, case_anchor, case_link, page
from evalkit.views.quotes import highlight
from evalkit.views.tables import key_values, table
from evalkit.writing import Progress
from tests.datasets import case, fact, write_dataset
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


# Markup


@given(st.text(max_size=80), st.lists(st.text(max_size=12), max_size=4))
def test_highlighting_changes_no_text(text, quotes):
    named = [(quote, str(number)) for number, quote in enumerate(quotes)]
    html = soup(highlight(text, named))
    for name in html.find_all("sup"):
        name.previous_sibling.extract()  # the space before it
        name.extract()
    assert html.get_text() == soup(escape(text)).get_text()


def test_a_quote_is_marked_over_line_breaks_and_overlaps_share_a_mark():
    text = "Stop the\n  writer first, then drain."
    html = highlight(
        text, [("Stop the writer", "fact 1"), ("the writer first", "fact 2"), ("not there", "fact 3")]
    )
    assert str(html) == "<mark>Stop the\n  writer first</mark>&nbsp;<sup>fact 1, fact 2</sup>, then drain."


def test_marked_text_is_escaped():
    html = str(highlight(f"before {SCRIPT} after", [(SCRIPT, SCRIPT)]))
    assert "<script" not in html
    assert "<img" not in html
    assert soup(html).mark.get_text() == SCRIPT


def test_case_sensitive_as_labels_are():
    assert "<mark>" not in highlight("Stop the writer", [("stop the writer", "fact 1")])


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_anchors_are_valid_and_tell_cases_apart(one, other):
    assert not set(case_anchor(one)) & set(" \t\n\"'<>#&")
    assert (case_anchor(one) == case_anchor(other)) == (one == other)


def test_only_cases_whose_evidence_is_there_are_linked():
    assert case_link("drain", ["drain"]) == Markup('<a href="#case-drain">drain</a>')
    assert case_link("a<b", ["drain"]) == "a&lt;b"
    assert case_link("drain") == "drain"


def test_a_banner_says_its_kind_in_words_and_escapes():
    html = banner("warning", SCRIPT, SCRIPT, Markup("<em>fine</em>"))
    assert "Warning: " in html
    assert "<script" not in html
    assert "<em>fine</em>" in html


# Tables


def test_a_table_has_caption_scopes_formats_and_escapes():
    frame = pd.DataFrame(
        {
            "case_id": ["drain", SCRIPT],
            "recall": [0.5, None],
            "n": [1234, 2],
            "good": [True, False],
            "text": [SCRIPT, None],
            "grade": pd.array([1, None], dtype="Int64"),
        }
    )
    html = table(frame, f"What {SCRIPT}", linked=["drain"])
    found = soup(html)
    assert "<script" not in html
    assert "<img" not in html
    assert found.caption.get_text() == f"What {SCRIPT}"
    assert [head["scope"] for head in found.thead("th")] == ["col"] * 6
    assert [head["scope"] for head in found.tbody("th")] == ["row"] * 2
    assert [cell.get_text() for cell in found.tbody("td")] == [
        "0.500",
        "1,234",
        "yes",
        SCRIPT,
        "1",
        "–",
        "2",
        "no",
        "–",
        "–",
    ]
    assert [link["href"] for link in found("a")] == ["#case-drain"]
    assert found.div["tabindex"] == "0"  # scrolled by keyboard


def test_a_bar_is_as_long_as_the_score():
    html = table(pd.DataFrame({"k": [1], "recall": [0.25], "n": [4]}), "Scores")
    assert "25.0%" in html
    assert html.count("linear-gradient") == 1  # n has no bar
    assert "linear-gradient" not in table(pd.DataFrame({"k": [1], "recall": [0.25]}), "Scores", bars=())


def test_a_table_with_groups_of_columns():
    columns = pd.MultiIndex.from_tuples([("", "case_id"), ("K = 1", "recall"), ("K = 1", "ndcg")])
    frame = pd.DataFrame([["a", 1.0, 0.5]], columns=columns)
    found = soup(table(frame, "Groups"))
    first, second = found.thead("tr")
    assert [(head.get_text(), head["scope"], head.get("colspan")) for head in first("th")] == [
        ("case", "col", None),
        ("K = 1", "colgroup", "2"),
    ]
    assert [head.get_text() for head in second("th")] == ["recall", "nDCG"]
    assert first.th["rowspan"] == "2"


def test_equal_tables_give_equal_html_and_no_rows_are_said():
    frame = pd.DataFrame({"k": [1], "recall": [0.25]})
    assert table(frame, "Scores") == table(frame.copy(), "Scores")
    assert text_of(table(frame.iloc[:0], "Scores")) == "Scores : none."


def test_key_values_escape_and_show_what_is_absent():
    html = key_values({"name": SCRIPT, "profile": None, "n": 0}, "Settings")
    assert "<script" not in html
    assert [cell.get_text() for cell in soup(html)("td")] == [SCRIPT, "–", "0"]


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


# Runs


@pytest.fixture
def run():
    """Complete, complete only beyond K, never, without facts; one unsupported question accepted."""
    return small_run(
        {"whole": [1, 2], "late": [1, 5], "lost": [None]},
        relevant={"plain": [2]},
        unsupported={"refused": False, "taken": True},
    )


def test_views_of_a_run_are_whole_html(run):
    views = [
        overview.verdict(run),
        overview.what_was_run(run),
        overview.verification(run),
        overview.headline(run),
        overview.case_scores(run),
        overview.unsupported_questions(run),
        overview.checks(run),
        overview.provenance(run),
        case_evidence(run),
    ]
    for view in views:
        parser = Tags()
        parser.feed(view.data)
        assert parser.open == []


def test_the_verdict_counts_cases_with_facts_and_names_the_weak_ones(run):
    said = text_of(overview.verdict(run))
    assert (
        "2 of 3 questions lack some of their required facts in the first 3 results: complete 0.333, n = 3"
        in said
    )
    assert "Weakest first: lost , late" in said
    assert "1 more questions have no labelled facts" in said
    assert "1 of 2 unsupported questions" in said
    assert "Only 4 answerable questions" in said


def test_the_verdict_without_facts_and_without_faults():
    said = text_of(overview.verdict(small_run({}, relevant={"plain": [2], "other": [1]})))
    assert (
        "All 2 questions have all their relevant passages in the first 3 results: recall 1.000, n = 2" in said
    )


def test_the_verdict_says_what_limits_it(run):
    limited = small_run(
        {"whole": [1]},
        notices=("no labels.lock",),
        retention="hash",
        counts={"facts_lost_to_chunking": 2},
        checks={
            "prefix": {"pairs": 2, "differing": [{"case_id": "whole", "k": 1, "next_k": 3}]},
            "ties": {"1": ["whole"], "3": []},
            "exact_search": {"compared": 1, "identical": 0, "recall": 0.5, "differing": ["whole"]},
        },
    )
    said = text_of(overview.verdict(limited))
    for part in (
        "no labels.lock",
        "2 facts are lost",
        "no prefix",
        "differ from those of exact",
        "equal scores cross",
        "SHA-256",
    ):
        assert part in said
    shown = rows(overview.checks(limited), "Checks")
    assert shown[1][1] == "1 of 2 differ: whole"
    assert shown[2][1] == "crossed for whole"
    assert shown[3][1] == "none"
    assert shown[4][1:] == [
        "1 of 1 differ: whole",
        "recall of the returned chunks against exact search: 0.500",
    ]


def test_the_headline_has_n_beside_every_mean(run):
    shown = rows(overview.headline(run), "Means")
    assert shown[0] == [
        "K",
        "precision",
        "recall",
        "MRR",
        "nDCG",
        "coverage",
        "complete",
        "n",
        "n with facts",
    ]
    # whole finds 1 of 2 at K = 1 and late 1 of 2; lost and plain find nothing.
    assert shown[1] == ["1", "0.500", "0.250", "0.500", "0.500", "0.333", "0.000", "4", "3"]
    assert "cases with labelled facts only" in text_of(overview.headline(run))


def test_partial_judgments_show_what_was_judged_and_the_bound_of_precision(run):
    grades = run.rankings["grade"].fillna(0).where(run.rankings["rank"] != 3)  # all judged but rank 3
    judged = run.scores["k"].map({1: 1.0, 3: 2 / 3})
    partial = changed(
        run, rankings=run.rankings.assign(grade=grades), scores=run.scores.assign(judged=judged)
    )
    head, at_1, at_3 = rows(overview.headline(partial), "Means")
    bound, share = head.index("precision at most (unjudged all relevant)"), head.index("judged@K")
    assert (at_1[1], at_1[bound], at_1[share]) == ("0.500", "0.500", "1.000")
    # Hits at K = 3: 2 + 1 + 0 + 1 of 12; with the four unjudged ones 8 of 12.
    assert (at_3[1], at_3[bound], at_3[share]) == ("0.333", "0.667", "0.667")


def test_the_weakest_case_comes_first_and_leads_to_its_evidence(run):
    assert weakest_first(run.scores, 3) == ["lost", "late", "plain", "whole"]
    shown = rows(overview.case_scores(run), "Scores of each case (n = 4)")
    assert [row[0] for row in shown[2:]] == ["lost", "late", "plain", "whole"]
    assert shown[0] == ["case", "", "K = 1", "K = 3"]
    assert shown[3][2:] == [
        "1.00",
        "0.50",
        "1.00",
        "1.00",
        "0.50",
        "0.00",
        "0.33",
        "0.50",
        "1.00",
        "0.61",
        "0.50",
        "0.00",
    ]
    links = {link["href"][1:] for link in soup(overview.case_scores(run))("a")}
    there = {part["id"] for part in soup(case_evidence(run))("details")}
    assert links == {"case-lost", "case-late", "case-plain", "case-whole"}
    assert links <= there


def test_cases_beyond_the_limit_are_counted_and_not_linked(run):
    assert shown_cases(run, 1) == ["lost", "refused"]
    html = overview.case_scores(run, limit=2, linked=["lost"])
    assert [link["href"] for link in soup(html)("a")] == ["#case-lost"]
    assert "2 of 4 cases are shown; the run holds all." in text_of(html)


def test_unsupported_questions_stand_apart_with_their_scores(run):
    shown = rows(overview.unsupported_questions(run), "Unsupported questions (n = 2)")
    assert shown[2][:5] == ["taken", "What about taken?", "1", "0.9375", "yes"]
    assert shown[3] == ["refused", "What about refused?", "0", "–", "no", "0", "–", "no"]
    none = overview.unsupported_questions(small_run({"whole": [1]}))
    assert "no unsupported questions" in text_of(none)


def test_the_record_is_shown_whole_and_escaped():
    run = small_run(
        {"whole": [1]},
        parameters={"dataset": SCRIPT},
        store={"collection": SCRIPT, "details": {SCRIPT: SCRIPT}},
    )
    for view in (overview.what_was_run(run), overview.provenance(run)):
        assert "<script" not in view.data
        assert SCRIPT in soup(view).get_text()
    said = text_of(overview.provenance(run))
    for part in ("a" * 64, "b" * 64, "c" * 64, "d" * 64, "1" * 40, "numpy 2.0.0"):
        assert part in said


# Evidence of cases


def test_evidence_names_found_and_missing_facts_with_quote_chunk_and_rank(run):
    late = text_of(soup(case_evidence(run)).find(id="case-late"))
    assert "1 of 2 facts found" in late
    assert "found Fact 0 of late Rank 1: late › fact/p0" in late
    assert (
        "missing Fact 1 of late late › fact/p1: comes at rank 5, outside K = 3 Quote: “quote 1 of late”"
        in late
    )
    assert "Relevant passages outside K = 3 2 answers late › fact/p1: rank 5, score 0.6875" in late
    lost = text_of(soup(case_evidence(run)).find(id="case-lost"))
    assert "missing Fact 0 of lost lost › fact/p0: not within the first 10 ranks" in lost
    assert "Relevant passages outside K = 3 2 answers lost › fact/p0: not within the first 10 ranks" in lost


def test_evidence_shows_the_ranking_at_k_in_order(run):
    table_rows = soup(case_evidence(run, ["whole"], 3)).tbody("tr")
    got = [[cell.get_text() for cell in row(["th", "td"])[:3]] for row in table_rows]
    assert got == [["1", "0.9375", "2 answers"], ["2", "0.8750", "2 answers"], ["3", "0.8125", "unjudged"]]


def test_evidence_of_unsupported_questions_and_cases_without_facts(run):
    found = soup(case_evidence(run))
    assert "unsupported, 3 results" in text_of(found.find(id="case-taken"))
    refused = text_of(found.find(id="case-refused"))
    assert "unsupported, refused" in refused
    assert "Nothing came back at K = 3." in refused
    plain = text_of(found.find(id="case-plain"))
    assert "recall 1.000, no facts labelled" in plain
    assert "coverage –, complete –" in plain


def test_cases_that_miss_something_are_open_when_there_are_many():
    many = {f"good{number}": [1] for number in range(25)}
    found = soup(case_evidence(small_run({**many, "weak": [9]})))
    assert [part["id"] for part in found("details", open=True)] == ["case-weak"]
    assert len(found("details")) == 26


def test_a_case_behind_the_threshold_says_so():
    assert rank_outside(2, 5, 20, None).startswith("comes at rank 2 when 20 are asked for")
    assert rank_outside(2, 5, 20, 0.5) == "would come at rank 2, but does not score above 0.5"
    assert rank_outside(7, 5, 20, None) == "comes at rank 7, outside K = 5"
    assert rank_outside(None, 5, 20, None) == "not within the first 20 ranks"


def test_documents_and_questions_are_escaped_in_evidence(run):
    hostile = changed(
        run,
        rankings=run.rankings.assign(text=SCRIPT, document_id=run.rankings["document_id"] + "<b>"),
        questions=run.questions.assign(question=SCRIPT),
        facts=run.facts.assign(text=SCRIPT, quote=SCRIPT),
    )
    html = case_evidence(hostile).data
    assert "<script" not in html
    assert "<img" not in html
    assert "<b>" not in html
    assert SCRIPT in soup(html).find(id="case-late").get_text()


@pytest.mark.parametrize(
    ("retention", "said", "notice"),
    [
        ("none", "(text not kept)", "kept no texts"),
        ("hash", "SHA-256 Passage 1", "SHA-256 of each text"),
        ("snippet", "Passage 1", "first 200 characters"),
    ],
)
def test_texts_that_were_not_kept_are_not_pretended(retention, said, notice):
    run = small_run({"whole": [1]}, retention=retention)
    html = case_evidence(run)
    assert said in text_of(soup(html).find(id="case-whole"))
    assert notice in text_of(html)


def test_all_quotes_of_unchanged_labels_are_marked(tmp_path):
    text = "The queue is drained first. Wait for   the readers. A hint stands here."
    folder = write_dataset(
        tmp_path / "set",
        {"whole": text},
        [
            case(
                "whole",
                evidence=[fact("whole", "queue is drained", "Wait for the readers")],
                supporting=[{"document": "whole", "quote": "A hint stands here"}],
            )
        ],
    )
    labels = load_dataset(folder).labels_sha256
    run = small_run({"whole": [1]}, parameters={"dataset": str(folder)}, dataset={"labels_sha256": labels})
    run = changed(run, rankings=run.rankings.assign(text=text))
    html = case_evidence(run, ["whole"])
    marks = [mark.get_text() for mark in soup(html).find(id="case-whole").tbody.tr("mark")]
    assert marks == ["queue is drained", "Wait for   the readers", "A hint stands here"]
    assert "no longer those of this run" not in text_of(html)
    other = small_run({"whole": [1]}, parameters={"dataset": str(folder)})  # labels of another hash
    other = changed(other, rankings=other.rankings.assign(text="Here is quote 0 of whole, kept in the run."))
    html = case_evidence(other, ["whole"])
    assert soup(html).mark.get_text() == "quote 0 of whole"
    assert "no longer those of this run" in text_of(html)


# Categories


@pytest.fixture
def sorted_run(run):
    names = {"whole": "easy", "plain": "easy", "late": "hard", "lost": "hard"}
    questions = run.questions.assign(category=run.questions["case_id"].map(names))
    return changed(
        run, scores=run.scores.assign(category=run.scores["case_id"].map(names)), questions=questions
    )


def test_categories_come_weakest_first_with_all_at_the_end(sorted_run):
    assert categories.weakest_categories(sorted_run) == ["hard", "easy"]
    intervals = categories.intervals_by_category(sorted_run)
    assert list(dict.fromkeys(intervals["category"])) == ["hard", "easy", "all questions"]
    said = text_of(categories.category_verdict(intervals, 3))
    assert "hard is the weakest category: complete 0.000 at K = 3" in said
    assert "Fewer than 10 cases in hard (n = 2), easy (n = 1)" in said


def test_category_counts_add_up(sorted_run):
    shown = rows(categories.category_counts(sorted_run), "Questions and facts")
    assert shown[0] == ["category", "answerable", "no split", "facts", "unsupported"]
    assert shown[1:] == [
        ["hard", "2", "2", "3", "0"],
        ["easy", "2", "2", "2", "0"],
        ["(no category)", "0", "0", "0", "2"],
        ["all questions", "4", "4", "5", "2"],
    ]


def test_the_category_table_has_an_interval_beside_each_mean(sorted_run):
    html = categories.category_table(categories.intervals_by_category(sorted_run))
    shown = rows(html, "Means by category and K")
    assert shown[0][:3] == ["category", "K", "precision"]
    hard = dict(zip(shown[0], shown[2], strict=True))
    assert hard["K"] == "3"
    assert hard["recall"] == "0.250 [0.000, 0.500]"
    assert (hard["n"], hard["n with facts"]) == ("2", "2")
    easy = dict(zip(shown[0], shown[4], strict=True))
    assert easy["complete"] == "1.000 [no interval]"
    assert (easy["n"], easy["n with facts"]) == ("2", "1")
    assert "easy: a single case has no interval" in text_of(html)


def test_the_weakest_cases_say_what_they_miss_and_from_which_rank_they_were_complete(sorted_run):
    choice = categories.choose(sorted_run, category="hard")
    assert choice == categories.Choice(3, ["lost", "late"])
    shown = rows(categories.weakest_cases(sorted_run, choice), "The 2 weakest of 4 cases at K = 3")
    assert shown[1][-2:] == ["not within 10", "Fact 0 of lost"]
    assert shown[2][-2:] == ["5", "Fact 1 of late"]


def test_a_choice_that_the_run_does_not_have_is_refused_with_all_reasons(sorted_run):
    with pytest.raises(InputError) as caught:
        categories.choose(sorted_run, k=7, category="medium", limit=0)
    for part in (
        "k: found 7, the run has K of 1, 3",
        "category: found 'medium', the run has easy, hard",
        "cases: found 0",
    ):
        assert part in str(caught.value)


# Indexing


@pytest.fixture
def indexing() -> tuple:
    dataset = load_dataset("worker-runbooks")
    return dataset, list(chunk_documents(dataset.documents, dataset.chunking)), index(
        IndexSettings.checked(dataset="worker-runbooks")
    )  # fmt: skip


def test_indexing_says_what_stands_in_the_collection(indexing):
    dataset, chunks, report = indexing
    assert "11 chunks of 7 documents are written and read back whole." in text_of(
        indexed.index_verdict(report)
    )
    assert "7 eligible" in text_of(indexed.index_verdict(report))
    shown = dict(rows(indexed.what_was_indexed(report, dataset, chunks), "What was indexed"))
    assert shown["chunks"] == "11, of them eligible 7"
    assert shown["words"].startswith(str(sum(chunk.words for chunk in chunks)))
    documents = rows(indexed.documents_table(dataset, chunks), "Documents (n = 7)")
    assert sum(int(row[-2]) for row in documents[1:]) == 11
    assert [row[4] for row in documents[1:]].count("yes") == sum(map(dataset.is_eligible, dataset.documents))
    assert rows(indexed.index_verification(report), "Verification: 0 problems")[1][:2] == ["points", "11"]
    assert report.fingerprint.digest in text_of(indexed.index_provenance(report, dataset))
    again = index(IndexSettings.checked(dataset="worker-runbooks"))
    assert "there already" in text_of(indexed.index_verdict(again))


def test_problems_of_verification_are_all_shown(indexing):
    report: IndexReport = indexing[2]
    broken = replace(report, verification=Verification((f"point {SCRIPT}", "point b"), {"points": 11}))
    html = indexed.index_verification(broken)
    assert "<script" not in html.data
    assert "2 problems were found." in text_of(html)
    assert "point b" in text_of(html)


def test_progress_is_one_line_that_is_written_anew(monkeypatch):
    shown: list[str] = []

    class Handle:
        def update(self, line):
            shown[-1] = text_of(line)

    def display(line, display_id):
        assert display_id
        shown.append(text_of(line))
        return Handle()

    monkeypatch.setattr(indexed, "display", display)
    update = indexed.live_progress()
    update(Progress(500, 2000, 10.0))
    assert shown == ["500 of 2,000 chunks, 50 a second, 30 s left"]
    update(Progress(2000, 2000, 40.0))
    assert shown == ["2,000 of 2,000 chunks, 50 a second, took 40.0 s"]


def test_a_page_carries_its_style():
    html = page(Markup("<p>text</p>")).data
    assert html.startswith("<style>")
    assert "url(" not in html
    assert "@import" not in html


# Real runs


def test_platform_runbooks_says_which_facts_are_missing_and_where_they_come(example_runs):
    run = load_run(example_runs["platform-runbooks"])
    found = soup(case_evidence(run, ["config-change-no-effect"], 5))
    said = text_of(found)
    assert "0 of 2 facts found" in said
    assert "reverting-a-configuration-change/p2: comes at rank 8, outside K = 5" in said
    at_10 = soup(case_evidence(run, ["config-change-no-effect"], 10))
    assert "2 of 2 facts found" in text_of(at_10)
    assert [mark.get_text().split()[0] for mark in at_10("mark")] == ["A", "Run"]
