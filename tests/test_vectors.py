"""The vector cache: what is kept, several processes at once, kills, and a disk that does not play along."""

import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit import paths, vectors
from evalkit.embedding import ModelIdentity
from evalkit.errors import InfrastructureError
from evalkit.vectors import VectorCache

MODEL = ModelIdentity("ollama", "tiny:1", "sha256:one", "text-only", 4, "0.1.0")


def keys(*numbers):
    return [f"{number:064x}" for number in numbers]


def rows(*numbers):
    return np.stack([np.float32([number, 0.5, -0.25, 1e-30]) for number in numbers])


def test_nothing_is_made_before_the_first_use():
    with VectorCache() as cache:
        assert cache.path == paths.outputs() / "vectors" / "cache.sqlite"
        assert not paths.outputs().exists()


def test_what_was_put_is_there_bit_for_bit():
    with VectorCache() as cache:
        cache.put(MODEL, keys(1, 2, 3), rows(1, 2, 3))
        assert cache.get(MODEL, []) == ({}, set())
    with VectorCache() as cache:
        found, versions = cache.get(MODEL, keys(3, 9, 1))
    assert sorted(found) == sorted(keys(1, 3))
    assert np.array_equal(found[keys(3)[0]], rows(3)[0])
    assert found[keys(3)[0]].dtype == np.float32
    assert versions == {"0.1.0"}


@pytest.mark.parametrize("other", [{"digest": "sha256:two"}, {"profile": "title-and-text"}])
def test_digest_and_profile_are_part_of_the_key(other):
    with VectorCache() as cache:
        cache.put(MODEL, keys(1), rows(1))
        assert cache.get(replace(MODEL, **other), keys(1)) == ({}, set())
        cache.put(replace(MODEL, **other), keys(1), rows(7))
        assert cache.get(MODEL, keys(1))[0][keys(1)[0]][0] == 1


def test_a_vector_once_kept_stays():
    with VectorCache() as cache:
        cache.put(MODEL, keys(1), rows(1))
        cache.put(replace(MODEL, server_version="0.2.0"), keys(1, 2), rows(5, 2))
        found, versions = cache.get(MODEL, keys(1, 2))
    assert [found[key][0] for key in keys(1, 2)] == [1, 2]
    assert versions == {"0.1.0", "0.2.0"}


def test_more_keys_than_a_query_takes():
    many = range(2 * vectors.PARAMETERS + 1)
    with VectorCache() as cache:
        cache.put(MODEL, keys(*many), rows(*many))
        found, _ = cache.get(MODEL, keys(*many, 99999))
    assert len(found) == len(many)
    assert all(found[key][0] == number for number, key in zip(many, keys(*many), strict=True))


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.integers(0, 50), st.floats(width=32, allow_nan=False), max_size=20))
def test_it_is_a_dictionary(tmp_path_factory, content):
    with VectorCache(tmp_path_factory.mktemp("cache") / "c.sqlite") as cache:
        cache.put(MODEL, keys(*content), np.float32([[value] for value in content.values()]).reshape(-1, 1))
        found, _ = cache.get(MODEL, keys(*range(51)))
    assert {int(key, 16): value[0] for key, value in found.items()} == content


# Several processes

WRITER = """
import sys, time
from pathlib import Path
import numpy as np
from evalkit.embedding import ModelIdentity
from evalkit.vectors import VectorCache

path, start, stop, step = Path(sys.argv[1]), *map(int, sys.argv[2:])
model = ModelIdentity("ollama", "tiny:1", "sha256:one", "text-only", 4, "0.1.0")
print("ready", flush=True)
sys.stdin.readline()
with VectorCache(path) as cache:
    for first in range(start, stop, step):
        numbers = range(first, min(first + step, stop))
        names = [f"{number:064x}" for number in numbers]
        cache.put(model, names, np.float32([[number, 0.5, -0.25, 1e-30] for number in numbers]))
        assert len(cache.get(model, names)[0]) == len(names)
        print(first, flush=True)
"""


def start(path, *numbers, before=""):
    process = subprocess.Popen(
        [sys.executable, "-c", before + WRITER, str(path), *map(str, numbers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_three_processes_at_once_on_a_new_file(tmp_path):
    path = tmp_path / "new" / "cache.sqlite"
    spans = [(0, 300), (100, 400), (0, 400)]
    running = [start(path, first, last, 7) for first, last in spans]
    for process in running:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in running:
        process.communicate(timeout=60)
        assert process.returncode == 0
    with VectorCache(path) as cache:
        found, _ = cache.get(MODEL, keys(*range(400)))
    assert all(np.array_equal(found[key], rows(number)[0]) for number, key in enumerate(keys(*range(400))))


@pytest.mark.slow
@pytest.mark.parametrize("batches", [1, 5])
def test_a_killed_process_leaves_whole_batches(tmp_path, batches):
    path = tmp_path / "cache.sqlite"
    process = start(path, 0, 10**7, 50)
    process.stdin.write("go\n")
    process.stdin.flush()
    for _ in range(batches):
        process.stdout.readline()
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    with VectorCache(path) as cache:
        found, _ = cache.get(MODEL, keys(*range(100_000)))
        assert len(found) >= batches * 50
        assert len(found) % 50 == 0
        assert set(found) == set(keys(*range(len(found))))
        cache.put(MODEL, keys(10**7), rows(10**7))
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_process_that_holds_the_file_is_waited_for_and_then_named(tmp_path, monkeypatch):
    monkeypatch.setattr(vectors, "BUSY_SECONDS", 0.2)
    path = tmp_path / "cache.sqlite"
    with VectorCache(path) as cache:
        cache.put(MODEL, keys(1), rows(1))
        holder = sqlite3.connect(path)
        holder.execute("BEGIN IMMEDIATE")
        with VectorCache(path) as reader:
            assert len(reader.get(MODEL, keys(1))[0]) == 1  # readers do not wait
            with pytest.raises(InfrastructureError, match=r"locked; another process holds it; wait"):
                reader.put(MODEL, keys(2), rows(2))
        holder.rollback()
        holder.close()
        cache.put(MODEL, keys(2), rows(2))


# A disk that does not play along


@pytest.mark.parametrize(
    "content", [b"this is no database at all, it is a letter " * 100, b"SQLite format 3\0" + b"\xff" * 4096]
)
def test_a_file_that_is_no_database(tmp_path, content):
    path = tmp_path / "cache.sqlite"
    path.write_bytes(content)
    with (
        VectorCache(path) as cache,
        pytest.raises(InfrastructureError, match=r"cache.sqlite: .*move cache.sqlite away"),
    ):
        cache.get(MODEL, keys(1))
    assert path.read_bytes() == content


def test_a_damaged_database(tmp_path):
    path = tmp_path / "cache.sqlite"
    with VectorCache(path) as cache:
        cache.put(MODEL, keys(*range(500)), rows(*range(500)))
    damaged = bytearray(path.read_bytes())
    damaged[5000:] = b"\x55" * (len(damaged) - 5000)
    path.write_bytes(damaged)
    with VectorCache(path) as cache, pytest.raises(InfrastructureError, match=r"damaged or not ours; move"):
        cache.get(MODEL, keys(*range(500)))


def test_another_programs_database(tmp_path):
    path = tmp_path / "cache.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE vectors (id INTEGER)")
    connection.close()
    with VectorCache(path) as cache, pytest.raises(InfrastructureError, match=r"not ours; move"):
        cache.get(MODEL, keys(1))


def test_a_vector_that_was_cut(tmp_path):
    path = tmp_path / "cache.sqlite"
    with VectorCache(path) as cache:
        cache.put(MODEL, keys(1), rows(1))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE vectors SET vector = x'0000'")
    connection.close()
    with (
        VectorCache(path) as cache,
        pytest.raises(InfrastructureError, match=r"2 bytes where 16 are wanted.*move"),
    ):
        cache.get(MODEL, keys(1))


def test_disk_full(tmp_path):
    path = tmp_path / "cache.sqlite"
    with VectorCache(path) as cache:
        cache.put(MODEL, keys(1), rows(1))
        pages = cache._connection.execute("PRAGMA page_count").fetchone()[0]
        cache._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(
            InfrastructureError, match=r"full; free space on the disk; what was embedded so far is kept"
        ):
            cache.put(MODEL, keys(*range(2, 2000)), rows(*range(2, 2000)))
        found, _ = cache.get(MODEL, keys(*range(2000)))
        assert list(found) == keys(1)  # nothing of the failed batch


def test_a_database_that_must_not_be_written(tmp_path):
    path = tmp_path / "cache.sqlite"
    with VectorCache(path) as cache:
        cache.put(MODEL, keys(1), rows(1))
        cache._connection.execute("PRAGMA query_only = ON")
        with pytest.raises(
            InfrastructureError, match=r"readonly.*make the folder writable, or set EVALKIT_OUTPUTS"
        ):
            cache.put(MODEL, keys(2), rows(2))


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with (
        VectorCache(tmp_path / "file" / "vectors" / "cache.sqlite") as cache,
        pytest.raises(InfrastructureError, match=r"cache.sqlite: Not a directory; make the folder writable"),
    ):
        cache.get(MODEL, keys(1))


@pytest.mark.slow
def test_a_file_that_may_not_grow(tmp_path):
    """A real limit of the system, in a process of its own."""
    limited = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
    process = start(tmp_path / "cache.sqlite", 0, 100_000, 1000, before=limited)
    _, errors = process.communicate("go\n", timeout=60)
    assert process.returncode == 1
    assert "InfrastructureError: vector cache" in errors
    assert "the disk is full or failing" in errors
    with VectorCache(tmp_path / "cache.sqlite") as cache:
        assert len(cache.get(MODEL, keys(*range(100_000)))[0]) % 1000 == 0


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_permission(tmp_path):
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o500)
    with (
        VectorCache(folder / "cache.sqlite") as cache,
        pytest.raises(InfrastructureError, match=r"unable to open database file; make the folder writable"),
    ):
        cache.get(MODEL, keys(1))
