"""A disk that is full or read-only: a real one, small, in a mount namespace that is gone with its process."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.processes import lines_of

KEPT_FREE = (0, 300_000, 20_000_000)
UNSHARE = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def can_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    mount = 'd=$(mktemp -d) && mount -t tmpfs none "$d"; s=$?; umount "$d"; rmdir "$d"; exit $s'
    return subprocess.run([*UNSHARE, "sh", "-c", mount], capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def attempts(tmp_path_factory):
    """What came of every attempt of `small_disk`, by its name."""
    if not can_mount():
        pytest.skip("no mount namespace can be made here (unshare --mount)")
    outputs = tmp_path_factory.mktemp("small")
    command = (
        f'mount -t tmpfs -o size=100m none "{outputs}" && exec "{sys.executable}" -m tests.faults.small_disk'
    )
    said = lines_of(*UNSHARE, "sh", "-c", command, environment={"EVALKIT_OUTPUTS": str(outputs)})
    return {one["name"]: one for one in said}


pytestmark = pytest.mark.slow


@pytest.mark.parametrize("free", KEPT_FREE)
def test_indexing_on_a_full_disk_is_refused_and_leaves_nothing(attempts, free):
    found = attempts[f"index, {free} bytes free"]
    assert "the disk is full" in found["error"]
    assert "free space, or set EVALKIT_OUTPUTS" in found["error"]
    assert found["left"] == []


def test_with_space_again_it_goes_on(attempts):
    assert attempts["index"]["done"] == "created"
    assert attempts["index again"]["done"] == "unchanged"
    assert attempts["evaluate again"]["done"] != attempts["evaluate"]["done"]


@pytest.mark.parametrize("what", ["store", "evaluate", "report", "overview"])
def test_evaluating_and_reporting_on_a_full_disk_say_so_and_keep_what_is_there(attempts, what):
    found = attempts[f"{what}, full"]
    assert "disk is full" in found["error"] or "No space left" in found["error"]
    assert "EVALKIT_OUTPUTS" in found["error"]
    assert found["left"] == attempts["evaluate"]["left"]
    assert attempts["latest, full"]["done"] == attempts["evaluate"]["done"]


@pytest.mark.parametrize("what", ["index", "index anew", "evaluate", "report"])
def test_read_only_outputs_are_named_and_stay_as_they_are(attempts, what):
    found = attempts[f"{what}, read-only"]
    assert "Read-only file system" in found["error"]
    assert "EVALKIT_OUTPUTS" in found["error"]
    assert found["left"] == attempts["evaluate"]["left"]
    assert attempts["latest, read-only"]["done"] == attempts["evaluate"]["done"]
