"""Criteria held against runs, and what CI gets to see of it."""

import dataclasses
import xml.etree.ElementTree as ET

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from evalkit.criteria import Criteria
from evalkit.errors import CriteriaNotMet, InputError
from evalkit.gate import gate
from evalkit.gate_reports import junit_xml, markdown_summary, text_summary
from evalkit.runs import load_run
from tests.conftest import environment
from tests.smallruns import small_run, without_hashes

FACTS = {"a": [1, 2], "b": [3], "c": [4], "d": [1]}
WORSE = {"a": [1, 7], "b": [3], "c": [2], "d": [None]}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with environment(EVALKIT_OUTPUTS=str(tmp_path_factory.mktemp("gated"))):
        return small_run(FACTS, unsupported={"x": True, "y": False, "z": False})


def only(report):
    (verdict,) = report.verdicts
    return verdict


def test_a_bound_that_is_just_kept_and_one_that_is_not(run):
    # Complete at 3: a, b and d of four.
    kept = only(gate(run, Criteria(min={"complete@3": 0.75})))
    assert (kept.name, kept.value, kept.bound, kept.relation, kept.n, kept.passed) == (
        "min complete@3", 0.75, 0.75, ">=", 4, True
    )  # fmt: skip
    report = gate(run, Criteria(min={"complete@3": 0.76, "complete@1": 0.0}))
    assert not report.passed
    with pytest.raises(
        CriteriaNotMet,
        match=r"(?s)misses 1 of 2 criteria.*complete@3: found 0\.7500, wanted >= 0\.7600 \(n = 4\)",
    ):
        report.enforce()
    gate(run, Criteria(min={"complete@3": 0.75})).enforce()


def test_rounding_does_not_fail_a_bound_that_is_met():
    # Coverage of ten cases with one of three facts each: the sum of thirds is not exactly 10/3.
    run = small_run({f"q{index}": [1, 5, 6] for index in range(10)})
    assert only(gate(run, Criteria(min={"coverage@3": 1 / 3}))).passed


def test_false_acceptance_counts_at_the_largest_k(run):
    verdict = only(gate(run, Criteria(max_false_acceptance=0.3)))
    assert (verdict.name, verdict.n, verdict.passed) == ("max_false_acceptance@3", 3, False)
    assert verdict.value == pytest.approx(1 / 3)
    assert verdict.detail == "1 of 3 unsupported questions accepted at K = 3 (anything returned)"
    assert only(gate(run, Criteria(max_false_acceptance=0.34, k=1))).name == "max_false_acceptance@1"


def test_drops_and_regressed_cases_against_a_baseline():
    baseline, run = small_run(FACTS), small_run(WORSE)
    report = gate(
        run, Criteria(max_drop={"complete@3": 0.3, "coverage@3": 0.1}, max_regressed_cases=1), baseline
    )
    complete, coverage, regressed = report.verdicts
    # Complete at 3 falls from a, b, d to b, c; coverage from 3/4 to (1/2 + 1 + 1 + 0) / 4.
    assert (complete.value, complete.passed) == (0.25, True)
    assert coverage.value == pytest.approx(0.75 - 2.5 / 4)
    assert not coverage.passed
    assert (regressed.value, regressed.bound, regressed.n, regressed.passed) == (2, 1, 4, False)
    assert [case.case_id for case in report.regressed] == ["d", "a"]
    assert report.regressed[1].detail == "lost: Fact 1 of a (was rank 2, now comes at rank 7, outside K = 3)"
    assert "now not within the first 10 ranks" in report.regressed[0].detail


def test_a_better_run_is_no_drop():
    verdict = only(gate(small_run(FACTS), Criteria(max_drop={"complete@3": 0.0}), small_run(WORSE)))
    assert verdict.value == -0.25
    assert verdict.passed


def test_a_case_without_facts_regresses_by_recall():
    baseline, run = small_run({}, relevant={"r": [1, 2]}), small_run({}, relevant={"r": [1, 9]})
    report = gate(run, Criteria(max_regressed_cases=0), baseline)
    assert report.regressed[0].detail == "recall fell from 1.000 to 0.500"
    other = small_run({}, relevant={"r": [1, 9]}, chunking="other-v1")
    with pytest.raises(InputError, match=r"1 case without facts cannot be compared across chunkings \(r\)"):
        gate(other, Criteria(max_regressed_cases=0), baseline)


def test_missing_figures_are_refused_all_at_once(run):
    criteria = Criteria(min={"complete@5": 0.9, "judged@3": 0.9, "recall@3": 0.9})
    with pytest.raises(InputError, match=r"(?s)complete@5: .* has no such figure.*at K = 1, 3.*judged@3"):
        gate(run, criteria)
    with pytest.raises(InputError, match="has no results at K = 7"):
        gate(run, Criteria(max_false_acceptance=0.5, k=7))


@pytest.mark.parametrize(
    ("criteria", "n", "detail"),
    [
        ({}, 5, "the fewest cases that count, for the scores at K = 3"),
        ({"k": 1, "max_false_acceptance": 1.0}, 5, "the fewest cases that count, for the scores at K = 1"),
        ({"min": {"recall@3": 0.0, "complete@3": 0.0}}, 4, "the fewest cases that count, for min complete@3"),
        ({"min": {"recall@3": 0.0}, "max_drop": {"coverage@1": 1.0}}, 4, "… for max_drop coverage@1"),
        ({"max_regressed_cases": 9}, 5, "the fewest cases that count, for max_regressed_cases@3"),
    ],
)
def test_fewer_cases_than_wanted_are_no_pass(criteria, n, detail):
    # Four cases with facts and one without; one unsupported question.
    run = small_run(FACTS, relevant={"r": [1]}, unsupported={"x": True})
    *others, kept = gate(run, Criteria(min_cases=n, **criteria), run).verdicts
    assert all(verdict.passed for verdict in others)
    assert (kept.name, kept.value, kept.bound, kept.n, kept.passed) == ("min_cases", n, n, n, True)
    assert kept.detail == detail.replace("…", "the fewest cases that count,")
    with pytest.raises(CriteriaNotMet, match=f"- min_cases: found {n}, wanted >= {n + 1} "):
        gate(run, Criteria(min_cases=n + 1, **criteria), run).enforce()


def test_no_unsupported_question_is_no_pass():
    with pytest.raises(InputError, match="no unsupported questions, so nothing is known"):
        gate(small_run(FACTS), Criteria(max_false_acceptance=1.0))


def test_no_case_with_facts_is_no_pass():
    with pytest.raises(InputError, match="coverage@3: only 0 of the 0 cases"):
        gate(small_run({}, relevant={"r": [1]}), Criteria(min={"coverage@3": 0.0}))


def without(run, table, keep):
    """The run with rows of a table missing or emptied, as an old one, stored without hashes, could be."""
    changed = keep(getattr(run, table))
    if run.record.tables_sha256:
        run = without_hashes(run)
    pq.write_table(pa.Table.from_pandas(changed, preserve_index=False), run.folder / f"{table}.parquet")
    return load_run(run.folder)


def test_a_mean_over_fewer_cases_than_should_count_is_refused():
    run = small_run(FACTS)
    emptied = without(
        run, "scores", lambda scores: scores.assign(ndcg=scores["ndcg"].where(scores["case_id"] != "c"))
    )
    with pytest.raises(InputError, match="ndcg@3: only 3 of the 4 cases that should count"):
        gate(emptied, Criteria(min={"ndcg@3": 0.0}))
    shortened = without(emptied, "scores", lambda scores: scores[scores["case_id"] != "c"])
    with pytest.raises(InputError, match=r"(?s)complete@3: only 3 of the 4.*recall@3: only 3 of the 4"):
        gate(shortened, Criteria(min={"complete@3": 0.0, "recall@3": 0.0}))


def test_fewer_unsupported_questions_than_the_record_counts_are_refused():
    run = small_run(FACTS, unsupported={"x": False}, counts={"answerable": 4, "unsupported": 2})
    with pytest.raises(InputError, match="only 1 of 2 unsupported questions"):
        gate(run, Criteria(max_false_acceptance=1.0))
    run = small_run(FACTS, counts={"answerable": 5})
    with pytest.raises(InputError, match="recall@3: only 4 of the 5"):
        gate(run, Criteria(min={"recall@3": 0.0}))


@pytest.mark.parametrize(
    ("table", "criteria", "fault"),
    [
        ("scores", Criteria(min={"recall@3": 0.0}), "recall@3: 4 cases with a value, 1 should count"),
        ("scores", Criteria(min={"complete@3": 0.0}), "complete@3: 4 cases with a value, 1 should count"),
        ("questions", Criteria(max_false_acceptance=1.0), "2 unsupported questions at K = 3, 1 should count"),
    ],
)
def test_a_table_of_a_larger_run_is_no_figure_of_this_one(table, criteria, fault):
    small = small_run({"a": [1]}, unsupported={"x": True}, counts={"answerable": 1, "unsupported": 1})
    larger = small_run(FACTS, unsupported={"x": False, "y": False})
    swapped = without(small, table, lambda _: getattr(larger, table))
    with pytest.raises(InputError, match=f"{fault}; the tables of the run do not belong together"):
        gate(swapped, criteria)


def test_a_baseline_is_needed_and_must_be_comparable(run):
    with pytest.raises(InputError, match="--baseline RUN"):
        gate(run, Criteria(max_regressed_cases=0))
    with pytest.raises(InputError, match="cannot be compared"):
        gate(run, Criteria(max_regressed_cases=0), small_run(FACTS, dataset={"labels_sha256": "0" * 64}))
    with pytest.raises(InputError, match=r"max_drop ndcg@3: cannot be compared.*coverage, complete"):
        gate(small_run(FACTS, chunking="other-v1"), Criteria(max_drop={"ndcg@3": 0.1}), small_run(FACTS))


def test_junit_has_a_case_for_every_criterion_and_regressed_case():
    criteria = Criteria(min={"recall@3": 0.1}, max_drop={"complete@3": 0.1}, max_regressed_cases=0)
    root = ET.fromstring(junit_xml(gate(small_run(WORSE), criteria, small_run(FACTS))))
    (suite,) = root
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped", "errors")} == {
        "tests": "5", "failures": "4", "skipped": "0", "errors": "0"
    }  # fmt: skip
    cases = {(case.get("classname"), case.get("name")): case for case in suite}
    assert set(cases) == {
        ("evalkit.gate.criteria", "min recall@3"),
        ("evalkit.gate.criteria", "max_drop complete@3"),
        ("evalkit.gate.criteria", "max_regressed_cases@3"),
        ("evalkit.gate.regressed", "a"),
        ("evalkit.gate.regressed", "d"),
    }
    failure = cases["evalkit.gate.criteria", "max_drop complete@3"].find("failure")
    assert failure is not None
    assert failure.get("message") == "max_drop complete@3: 0.2500, wanted <= 0.1000, n = 4, not met"
    assert "lost: Fact 1 of a" in (cases["evalkit.gate.regressed", "a"].find("failure").text or "")


def test_tolerated_regressions_do_not_fail_the_job():
    report = gate(small_run(WORSE), Criteria(max_regressed_cases=2), small_run(FACTS))
    (suite,) = ET.fromstring(junit_xml(report))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "0", "2")


def test_hostile_text_stays_text():
    questions = {"a": "Bell \x07, <script>alert(1)</script> | `x` & \U0001f600"}
    baseline, run = (small_run({"a": [rank]}, texts=questions) for rank in (1, None))
    report = gate(run, Criteria(max_regressed_cases=0), baseline)
    text = ET.fromstring(junit_xml(report)).find(".//testcase[@name='a']/failure").text
    assert "<script>" in text
    assert "\x07" not in text
    summary = markdown_summary(report)
    assert "<script>" not in summary
    assert "&#60;script&#62;alert(1)&#60;/script&#62; &#124; &#96;x&#96; &#38; \U0001f600" in summary
    named = dataclasses.replace(report, dataset="a|b")
    assert "a&#124;b" in markdown_summary(named)


def test_markdown_and_terminal_say_value_bound_n_and_verdict(run):
    report = gate(run, Criteria(min={"complete@3": 0.9}, max_false_acceptance=0.5))
    summary = markdown_summary(report)
    assert "## Retrieval gate: 1 of 2 criteria not met" in summary
    assert "| min complete@3 | 0.7500 | &#62;= 0.9000 | 4 | **not met** | mean over 4 cases |" in summary
    assert "| max_false_acceptance@3 | 0.3333 | &#60;= 0.5000 | 3 | met |" in summary
    lines = text_summary(report).splitlines()
    assert lines[0] == "min complete@3: 0.7500, wanted >= 0.9000, n = 4, not met"
    assert lines[1] == "max_false_acceptance@3: 0.3333, wanted <= 0.5000, n = 3, met"


def test_cases_without_facts_are_said_beside_the_mean():
    run = small_run({"a": [1]}, relevant={"r": [1]})
    assert only(gate(run, Criteria(min={"complete@3": 1.0}))).detail == (
        "mean over 1 case; 1 case without facts left out"
    )


@pytest.mark.thorough
def test_real_runs_and_their_own_figures(example_runs):
    run = load_run(example_runs["platform-runbooks"])
    criteria = Criteria(
        min={"complete@5": 0.86, "mrr@3": 0.9}, max_false_acceptance=1.0, max_regressed_cases=0
    )
    report = gate(run, criteria, run)
    assert report.passed
    complete, reciprocal_rank, acceptance, regressed = report.verdicts
    assert complete.value == pytest.approx(0.866667, abs=1e-6)
    assert reciprocal_rank.value == pytest.approx(0.905556, abs=1e-6)
    assert (complete.n, acceptance.n, regressed.n) == (90, 42, 90)
    assert acceptance.value == 1.0
