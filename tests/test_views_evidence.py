"""HTML about chunkings, contexts and judging: what must be said, and texts of data escaped."""

from dataclasses import replace

import pandas as pd
import pytest

from evalkit.dataset import load_dataset
from evalkit.errors import InputError
from evalkit.pooling import Pool
from evalkit.runs import load_run
from evalkit.views.chunkings import chunkings_changed, chunkings_verdict
from evalkit.views.context import evidence_in_context, follow, lost_on_the_way
from evalkit.views.judging import to_judge

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture
def run(example_runs):
    return load_run(example_runs["worker-runbooks"])


@pytest.fixture
def cases():
    return load_dataset("worker-runbooks").cases


def test_the_context_section_is_off_until_asked(run, cases):
    assert follow(run, cases) is None
    assert "Off. A parameter named context_…" in evidence_in_context(None).data
    assert lost_on_the_way(None) is None


def test_without_options_but_k_the_context_holds_the_facts_that_coverage_counts(run, cases):
    for k in (1, 3, 10):
        loss = follow(run, cases, k=k)
        scored = run.scores[run.scores["k"] == k].set_index("case_id")["coverage"]
        assert loss.contexts.set_index("case_id")["coverage"].to_dict() == pytest.approx(scored.to_dict())


def test_the_largest_k_is_used_by_default_and_no_more_than_the_depth(run, cases):
    assert follow(run, cases, budget=50).steps["step"].tolist() == [
        "eligible",
        "in the first 10",
        "within budget",
    ]
    with pytest.raises(InputError, match="context_k: found 21, but the run looked 20 deep"):
        follow(run, cases, k=21)


def test_functions_of_the_user_are_imported_by_name(run, cases, tmp_path, monkeypatch):
    (tmp_path / "mycontext.py").write_text(
        "def count(text):\n    return 2 * len(text.split())\n\n\ndef build(rows):\n    return rows['text'].iloc[0]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    loss = follow(run, cases, budget=1000, counter="mycontext:count", builder="mycontext:build")
    # The first chunk alone is what K = 1 counts: one of the nine facts stands in a second chunk.
    assert loss.steps["facts"].tolist()[-2:] == [8, 8]
    half = follow(run, cases, budget=40, counter="mycontext:count")
    assert set(half.contexts["words"]) == {20}
    with pytest.raises(InputError, match="module:function that can be imported"):
        follow(run, cases, builder="mycontext:nothing")


def paired_rows(*rows):
    columns = "budget chunking measure baseline mean difference low high p better worse short n".split()
    return pd.DataFrame(rows, columns=columns)


NO_LOSS = pd.DataFrame({"chunking": [], "case_id": [], "fact": [], "text": []})


def test_the_verdict_on_chunkings_names_the_better_one_and_what_limits_it():
    rows = paired_rows(
        (80, "new", "complete", 0.5, 0.9, 0.4, 0.3, 0.5, 0.001, 40, 0, 0, 100),
        (160, "new", "complete", 0.9, 0.8, -0.1, -0.2, -0.01, 0.04, 0, 10, 3, 100),
        (320, "new", "complete", 0.9, 0.9, 0.0, -0.1, 0.1, 1.0, 1, 1, 0, 100),
    )
    lost = pd.DataFrame({"chunking": ["new", "new"]})
    text = chunkings_verdict(rows, lost, "old").data
    assert "More complete evidence for the same words: new at 80 words; old at 160 words." in text
    assert "At 320 words new has all facts of 90.0% of 100 questions, old of 90.0%" in text
    assert "Facts cut apart by a chunk border, which no search can find: new: 2." in text
    assert "ended some rankings before the budget did (3 at 160 words)" in text
    assert "Only" not in text


def test_few_questions_and_no_difference_are_said():
    rows = paired_rows((80, "new", "complete", 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0, 0, 0, 7))
    text = chunkings_verdict(rows, NO_LOSS, "old").data
    assert "No chunking is shown to find more complete evidence" in text
    assert "Only 7 questions have facts" in text


def test_names_from_data_are_escaped():
    columns = ["chunking", "case_id", "category", "budget", "coverage"]
    cases = pd.DataFrame([("a", SCRIPT, "c", 80, 1.0), ("b", SCRIPT, "c", 80, 0.0)], columns=columns)
    assert SCRIPT not in chunkings_changed(cases, [80]).data
    passages = pd.DataFrame(
        [("one", SCRIPT, True, "d", "p0", 2, 1, pd.NA, SCRIPT)],
        columns="case_id question answerable document_id chunk_id seen best_rank grade text".split(),
    )
    text = to_judge(Pool("small", passages, (SCRIPT,))).data
    assert "1 unjudged passages" in text
    assert "evalkit labels pool small" in text
    assert SCRIPT not in text


@pytest.mark.parametrize("retention", ["snippet", "hash", "none"])
def test_texts_that_were_not_kept_whole_assemble_no_context(run, cases, retention):
    less = replace(run, record=run.record.model_copy(update={"retention": retention}))
    with pytest.raises(InputError, match=f"retention '{retention}'.*retention 'full'"):
        follow(less, cases, k=3)
