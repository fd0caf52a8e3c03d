"""Prompts, checks of vectors, recorded vectors, embedding through the cache, recording."""

import hashlib
import json
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import paths, recorded
from evalkit.chunking import Chunk, ChunkKey
from evalkit.dataset import load_dataset
from evalkit.embedders import dataset_prompts, embed_cached, open_embedder, record_vectors
from evalkit.embedding import (
    PROFILES,
    ModelIdentity,
    Prompt,
    check_vectors,
    choose_profile,
    document_prompt,
    family,
    query_prompt,
)
from evalkit.errors import InfrastructureError, InputError
from evalkit.recorded import open_recorded, write_recorded
from evalkit.settings import EmbeddingSettings
from evalkit.vectors import VectorCache
from tests.datasets import OTHER, case, write_dataset

DIMENSION = 8
RECORDED = (
    "section-paragraphs-80w-overlap1-v1",
    "paragraphs-v1",
)  # versions whose vectors are in data/embeddings


def chunk(title="Workers", text="Drain {the} queue."):
    return Chunk(ChunkKey("doc", "v1", "retries/p0"), title, "runbook", "published", text)


def unit(*values):
    vector = np.asarray(values, np.float64)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def made(text):
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    return unit(*np.random.default_rng(seed).standard_normal(DIMENSION))


class Live:
    """A live model without a server: vectors from the text, what was embedded is kept."""

    live = True

    def __init__(self, batch_size=4, digest="sha256:one", profile="text-only", fail_after=None):
        self.batch_size = batch_size
        self.counts = Counter()
        self.identity = ModelIdentity("ollama", "tiny:1", digest, profile, None, "0.1.0")
        self.batches = []
        self.fail_after = fail_after

    def embed(self, prompts):
        if self.fail_after is not None and len(self.batches) >= self.fail_after:
            raise InfrastructureError("the model is gone")
        self.batches.append([prompt.text for prompt in prompts])
        return np.stack([made(prompt.text) for prompt in prompts])

    def close(self):
        pass


def prompts_of(*texts):
    return [Prompt(f"chunk {text}", text) for text in texts]


# Prompts


def test_prompts_of_embeddinggemma():
    assert document_prompt("embeddinggemma", chunk()) == Prompt(
        "chunk retries/p0 of document doc", "title: Workers | text: Drain {the} queue."
    )
    assert document_prompt("embeddinggemma", chunk(title="")).text == "title: none | text: Drain {the} queue."
    assert query_prompt("embeddinggemma", "c1", "Why {x}?") == Prompt(
        "case c1", "task: search result | query: Why {x}?"
    )


def test_prompt_hash_is_that_of_the_whole_prompt_in_utf8():
    assert Prompt("x", "héllo 漢").sha256 == hashlib.sha256("héllo 漢".encode()).hexdigest()


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("embeddinggemma:300m", "embeddinggemma"),
        ("EmbeddingGemma", "embeddinggemma"),
        ("registry.example.com:5000/me/embeddinggemma:latest", "embeddinggemma"),
        ("hf.co/x/y-GGUF:Q8_0", "y-gguf"),
    ],
)
def test_family(model, name):
    assert family(model) == name


def test_profiles_are_chosen_or_asked_for():
    assert choose_profile("embeddinggemma:300m", None) == "embeddinggemma"
    assert choose_profile("embeddinggemma:300m", "text-only") == "text-only"
    with pytest.raises(InputError, match=r"'bge-m3' has no known prompt profile") as caught:
        choose_profile("bge-m3", None)
    assert all(f"- {name}: document" in str(caught.value) for name in PROFILES)
    with pytest.raises(InputError, match=r"unknown profile 'gemma'"):
        choose_profile("embeddinggemma", "gemma")
    with pytest.raises(InputError, match=r"unknown profile"):
        query_prompt("gemma", "c1", "Why?")


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_keeps_text_and_question_whole(profile):
    assert "Drain {the} queue." in document_prompt(profile, chunk()).text
    assert "Why {title}?" in query_prompt(profile, "c1", "Why {title}?").text


# Checks of vectors


def check(vectors, dimension=3, names=None, error=InfrastructureError):
    vectors = np.asarray(vectors, np.float32)
    check_vectors(
        vectors, dimension, names or [f"case {n}" for n in range(len(vectors))], "vectors of M", error
    )


def test_good_vectors_pass():
    check([unit(1, 2, 3), unit(0, 0, 1)])
    check(np.empty((0, 3)))
    check([unit(1, 2, 3)], dimension=None)


@pytest.mark.parametrize(
    ("vectors", "text"),
    [
        (
            [unit(1, 2, 3), [0, float("nan"), 1]],
            r"1 of 2 .*\n- case 1: 1 values are not finite, .* nan at position 1",
        ),
        (
            [[float("inf"), 0, float("-inf")]],
            "case 0: 2 values are not finite, the first is inf at position 0",
        ),
        ([[0, 0, 0]], "case 0: all zeros"),
        ([[3, 0, 4]], "case 0: length 5 found, 1 wanted"),
        ([[1, 0]], "vectors of 3 numbers wanted, 2 found, first for case 0"),
        ([1.0, 0.0, 0.0], r"3 vectors wanted, an array of shape \(3,\) found"),
    ],
)
def test_bad_vectors_are_named(vectors, text):
    with pytest.raises(InfrastructureError, match=f"(?s)vectors of M: .*{text}"):
        check(vectors)


def test_count_of_vectors_and_empty_ones():
    with pytest.raises(InfrastructureError, match=r"2 vectors wanted, an array of shape \(1, 3\)"):
        check([unit(1, 2, 3)], names=["a", "b"])
    with pytest.raises(InfrastructureError, match=r"1 numbers wanted, 0 found"):
        check(np.empty((2, 0)), dimension=None)


def test_class_of_the_error_and_a_long_list():
    with pytest.raises(
        InputError, match=r"(?s)12 of 12 vectors.*- case 9: all zeros\n- and 2 more"
    ) as caught:
        check(np.zeros((12, 3)), error=InputError)
    assert "case 10" not in str(caught.value)


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=6), st.floats(1.01, 100))
def test_only_unit_vectors_pass(values, factor):
    length = float(np.linalg.norm(values))
    if length < 1e-3:
        return
    vector = (np.asarray(values, np.float64) / length).astype(np.float32)
    check([vector], dimension=None)
    with pytest.raises(InfrastructureError, match=r"length"):
        check([vector * np.float32(factor)], dimension=None)


# Recorded vectors


def test_every_prompt_of_both_data_sets_is_recorded():
    with open_embedder(EmbeddingSettings.checked()) as embedder, VectorCache() as cache:
        identity = embedder.identity
        prompts = [
            prompt
            for name in ("worker-runbooks", "platform-runbooks")
            for prompt in dataset_prompts(load_dataset(name), RECORDED, identity.profile)
        ]
        vectors, embedded = embed_cached(embedder, cache, prompts)
    assert (
        len({prompt.sha256 for prompt in prompts}) == 547
    )  # as many as the file has rows: nothing is left over
    assert vectors.shape == (len(prompts), 768)
    assert vectors.dtype == np.float32
    assert embedded == 0
    assert (identity.embedder, identity.model, identity.dimension) == ("recorded", "embeddinggemma:300m", 768)
    assert identity.server_version is None
    assert not cache.path.exists()  # recorded vectors are not copied

    table = pd.read_parquet(paths.embeddings_folder() / "embeddinggemma-300m.parquet")
    by_hash = dict(zip(table["prompt_sha256"], table["vector"], strict=True))
    assert np.array_equal(vectors, np.stack([by_hash[prompt.sha256] for prompt in prompts]))


def test_canary_prompt_is_recorded():
    canary = open_recorded(paths.embeddings_folder()).canary
    assert canary is not None
    question = load_dataset("worker-runbooks").cases[0].question
    assert canary.text == query_prompt("embeddinggemma", "x", question).text


def test_missing_prompts_are_named_and_how_to_record_them():
    with open_embedder(EmbeddingSettings.checked()) as embedder, VectorCache() as cache:
        known = open_recorded(paths.embeddings_folder()).canary
        with pytest.raises(InputError, match=r"no recorded vector for 12 of 13 prompts") as caught:
            embed_cached(embedder, cache, [known, *prompts_of(*"abcdefghijkl")])
        empty, embedded = embed_cached(embedder, cache, [])
    text = str(caught.value)
    assert "- chunk a\n" in text
    assert "- and 2 more\n" in text
    assert "`evalkit record --dataset DATASET`" in text
    assert (empty.shape, embedded) == ((0, 768), 0)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"model": "embeddinggemma"}, "model 'embeddinggemma' asked for, 'embeddinggemma:300m' recorded"),
        ({"profile": "text-only"}, "profile 'text-only' asked for, 'embeddinggemma' recorded"),
        ({"embeddings": "no-such-folder"}, "no-such-folder: no such folder of recorded vectors"),
    ],
)
def test_recorded_vectors_of_something_else_are_refused(settings, text):
    with pytest.raises(InputError, match=text):
        open_embedder(EmbeddingSettings.checked(**settings))


@pytest.fixture
def folder(tmp_path):
    """A folder of recorded vectors of a tiny model: prompts a, b, c."""
    target = tmp_path / "embeddings"
    prompts = prompts_of("a", "b", "c")
    write_recorded(target, Live().identity, prompts, np.stack([made(one.text) for one in prompts]))
    return target


def parquet(folder, hashes, vectors, **columns):
    """Write a Parquet file by hand; `vectors` is an Arrow array."""
    for path in folder.glob("*.parquet"):
        path.unlink()
    pq.write_table(pa.table({"prompt_sha256": hashes, "vector": vectors} | columns), folder / "made.parquet")


def fixed(rows, size=DIMENSION, kind=None):
    return pa.array(
        [list(row) if row is not None else None for row in rows], pa.list_(kind or pa.float32(), size)
    )


def no_model(folder):
    (folder / "model.json").unlink()


def not_json(folder):
    (folder / "model.json").write_text("{")


def no_profile(folder):
    model = json.loads((folder / "model.json").read_text())
    del model["profile"]
    (folder / "model.json").write_text(json.dumps(model | {"dimension": "8"}))


def no_parquet(folder):
    for path in folder.glob("*.parquet"):
        path.unlink()


def not_parquet(folder):
    next(folder.glob("*.parquet")).write_bytes(b"PAR1 is not enough PAR1")


def other_size(folder):
    parquet(folder, [Prompt("", "a").sha256], fixed([[1.0, 0.0]], 2))


def doubles(folder):
    parquet(folder, [Prompt("", "a").sha256], fixed([made("a")], kind=pa.float64()))


def no_hashes(folder):
    pq.write_table(pa.table({"vector": fixed([made("a")])}), next(folder.glob("*.parquet")))


def nothing_in_it(folder):
    parquet(folder, [Prompt("", "a").sha256], fixed([None]))


def not_finite(folder):
    parquet(folder, [Prompt("", "a").sha256], fixed([[float("nan")] * DIMENSION]))


def not_unit(folder):
    parquet(folder, [Prompt("", "a").sha256], fixed([[2.0] * DIMENSION]))


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        (no_model, "model.json: missing"),
        (not_json, "model.json: not the identity of a model"),
        (no_profile, "(?s)- profile is missing.*- dimension: should be a whole number"),
        (no_parquet, "embeddings: no Parquet file"),
        (not_parquet, "parquet: cannot be read as Parquet"),
        (other_size, r"made.parquet: columns .*\[8\].* wanted, .*\[2\]"),
        (doubles, r"made.parquet: columns .*float.* wanted, .*double"),
        (no_hashes, r"columns prompt_sha256 .* wanted, vector \("),
        (nothing_in_it, "made.parquet: (empty vectors|cannot be read as Parquet)"),
        (not_finite, "8 values are not finite"),
        (not_unit, "chunk a: length 5.65685 found"),
    ],
)
def test_a_faulty_folder_is_an_input_error(folder, damage, text):
    assert len(open_recorded(folder)) == 3
    damage(folder)
    with pytest.raises(InputError, match=text) as caught:
        open_recorded(folder).vectors(prompts_of("a"))
    assert str(folder) in str(caught.value)


def test_a_folder_is_read_once_a_process_and_again_when_it_changes(folder, monkeypatch):
    reads = []
    read = recorded._read_hashes
    monkeypatch.setattr(recorded, "_read_hashes", lambda *a: reads.append(a) or read(*a))
    first = open_recorded(folder)
    assert open_recorded(folder) is first
    assert len(reads) == 1
    write_recorded(folder, Live().identity, prompts_of("d"), made("d")[None])
    again = open_recorded(folder)
    assert len(reads) == 3
    assert np.array_equal(
        again.vectors(prompts_of("d", "a", "d")), np.stack([made("d"), made("a"), made("d")])
    )


def test_only_the_row_groups_that_are_needed_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "ROWS_A_GROUP", 2)
    prompts = prompts_of(*"abcdefg")
    write_recorded(tmp_path, Live().identity, prompts, np.stack([made(one.text) for one in prompts]))
    groups = []
    read = recorded._read_group

    def counted(path, group, stamp):
        groups.append(group)
        return read(path, group, stamp)

    monkeypatch.setattr(recorded, "_read_group", counted)
    found = open_recorded(tmp_path).vectors(prompts_of("g", "c", "d"))
    assert sorted(groups) == [1, 3]
    assert np.array_equal(found, np.stack([made("g"), made("c"), made("d")]))


def test_further_columns_and_files_do_no_harm(folder):
    parquet(folder, [Prompt("", "z").sha256], fixed([made("z")]), note=["hello"])
    shutil.copy(folder / "made.parquet", folder / "again.parquet")
    (folder / "README.md").write_text("hello")
    assert len(open_recorded(folder)) == 1
    assert np.array_equal(open_recorded(folder).vectors(prompts_of("z")), made("z")[None])


# Embedding through the cache


def test_each_distinct_prompt_is_embedded_once_in_fixed_batches():
    live, seen = Live(batch_size=2), []
    prompts = prompts_of("a", "b", "a", "c", "b")
    with VectorCache() as cache:
        vectors, embedded = embed_cached(live, cache, prompts, lambda done, total: seen.append((done, total)))
        assert live.batches == [["a", "b"], ["c"]]
        assert embedded == 3
        assert seen == [(2, 3), (3, 3)]
        assert np.array_equal(vectors, np.stack([made(one.text) for one in prompts]))
        again, embedded = embed_cached(live, cache, prompts_of("c", "d"), lambda *a: seen.append(a))
        assert live.batches[2:] == [["d"]]
        assert embedded == 1
        assert np.array_equal(again, np.stack([made("c"), made("d")]))
        assert embed_cached(live, cache, [])[0].shape == (0, 0)
    with VectorCache() as cache:
        third, embedded = embed_cached(live, cache, prompts)
        assert embedded == 0
        assert np.array_equal(third, vectors)
        assert len(live.batches) == 3


@pytest.mark.parametrize("other", [{"digest": "sha256:two"}, {"profile": "title-and-text"}])
def test_another_digest_or_profile_shares_nothing(other):
    with VectorCache() as cache:
        embed_cached(Live(), cache, prompts_of("a"))
        assert embed_cached(Live(**other), cache, prompts_of("a"))[1] == 1


def test_what_was_embedded_before_a_failure_is_kept():
    with VectorCache() as cache, pytest.raises(InfrastructureError, match=r"gone"):
        embed_cached(Live(batch_size=2, fail_after=2), cache, prompts_of(*"abcdef"))
    with VectorCache() as cache:
        assert embed_cached(Live(batch_size=2), cache, prompts_of(*"abcdef"))[1] == 2


def test_vectors_of_another_server_version_are_pointed_out(caplog):
    old, new = Live(), Live()
    new.identity = ModelIdentity("ollama", "tiny:1", "sha256:one", "text-only", None, "0.2.0")
    with VectorCache() as cache:
        embed_cached(old, cache, prompts_of("a"))
        embed_cached(new, cache, prompts_of("b"))
        assert new.identity.warnings == []
        embed_cached(new, cache, prompts_of("a", "b"))
        embed_cached(new, cache, prompts_of("a", "b"))
    [text] = new.identity.warnings
    assert "come from Ollama 0.1.0, the server now is 0.2.0" in text
    assert caplog.messages == [text]


@pytest.mark.parametrize(
    ("vector", "text"),
    [
        (np.float32([2.0] * DIMENSION), "1 of 2 vectors cannot be used:\n- chunk b: length 5.65685"),
        (np.float32([1.0, 0.0]), "vectors of 8 numbers wanted:\n- chunk b: 2 numbers.*move the file away"),
    ],
)
def test_kept_vectors_that_changed_on_disk_are_refused(vector, text):
    live = Live()
    live.identity = replace(live.identity, dimension=DIMENSION)
    good, bad = prompts_of("a", "b")
    with VectorCache() as cache:
        cache.put(live.identity, [good.sha256], made("a")[None])
        cache.put(live.identity, [bad.sha256], vector[None])
        with pytest.raises(InfrastructureError, match=f"(?s)vector cache .*cache.sqlite: .*{text}"):
            embed_cached(live, cache, [good, bad])
    assert live.batches == []


@pytest.mark.parametrize("known", [True, False], ids=["seen before", "seen with the next batch"])
def test_a_model_that_gives_another_size_under_the_same_digest_is_blamed_and_not_the_cache(known):
    live = Live()
    with VectorCache() as cache:
        cache.put(live.identity, [one.sha256 for one in prompts_of("a", "b")], np.stack([unit(3, 4)] * 2))
        if known:
            live.identity = replace(live.identity, dimension=DIMENSION)
        with pytest.raises(InfrastructureError) as caught:
            embed_cached(live, cache, prompts_of("a", "b", "c"))
        assert cache.get(live.identity, [prompts_of("c")[0].sha256])[0] == {}
    text = str(caught.value)
    assert "tiny:1 gives vectors of 8 numbers now and gave 2 before, under the same digest sha256:one" in text
    assert f"changed, not the vector cache {cache.path}" in text


# Recording


def small(tmp_path):
    """A data set of one document and two questions, made by hand."""
    body = "## First\n\nThe queue is drained.\n\nThe queue is closed."
    cases = [case("c1", "Is it drained?", relevant=[{"document": "one", "chunk": "first/p0"}])]
    unsupported = [{"id": "u1", "question": "Is it red?"}]
    return load_dataset(write_dataset(tmp_path / "small", {"one": body}, cases, unsupported, chunking=OTHER))


def test_recording_makes_what_the_recorded_embedder_reads(tmp_path):
    dataset, target = small(tmp_path), tmp_path / "own"
    with VectorCache() as cache:
        done = record_vectors(dataset, Live(), cache, target)
        assert (done.already, done.added, done.embedded) == (0, 4, 4)
        again = record_vectors(dataset, Live(), cache, target)
        assert (again.already, again.added, again.embedded, again.file) == (4, 0, 0, None)
        more = record_vectors(dataset, Live(), cache, target, RECORDED)
        assert (more.already, more.added) == (4, 1)  # both paragraphs make one chunk of the other version
    assert sorted(path.name for path in target.iterdir()) == sorted(
        ["canary.txt", "model.json", done.file.name, more.file.name]
    )
    settings = EmbeddingSettings.checked(model="tiny:1", profile="text-only", embeddings=str(target))
    prompts = dataset_prompts(dataset, RECORDED, "text-only")
    with open_embedder(settings) as embedder:
        assert np.array_equal(embedder.embed(prompts), np.stack([made(one.text) for one in prompts]))
        assert (embedder.identity.digest, embedder.identity.dimension) == ("sha256:one", DIMENSION)
    assert open_recorded(target).canary == Prompt("the canary prompt", "Is it red?")


@pytest.mark.parametrize("other", [{"digest": "sha256:two"}, {"profile": "title-and-text"}])
def test_two_models_never_share_a_folder(tmp_path, other):
    dataset, target = small(tmp_path), tmp_path / "own"
    with VectorCache() as cache:
        record_vectors(dataset, Live(), cache, target)
        before = sorted(target.iterdir())
        live = Live(**other)
        with pytest.raises(
            InputError, match=r"(?s)holds vectors of another model.*there.*here.*another folder"
        ):
            record_vectors(dataset, live, cache, target)
    assert live.batches == []
    assert sorted(target.iterdir()) == before


def test_recorded_vectors_cannot_be_recorded(tmp_path):
    dataset = small(tmp_path)
    with (
        open_embedder(EmbeddingSettings.checked()) as embedder,
        VectorCache() as cache,
        pytest.raises(InputError, match=r"embedder: ollama"),
    ):
        record_vectors(dataset, embedder, cache, tmp_path / "own")
    assert not (tmp_path / "own").exists()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with VectorCache() as cache, pytest.raises(InfrastructureError, match=r"cannot write .*file"):
        record_vectors(small(tmp_path), Live(), cache, tmp_path / "file" / "own")
