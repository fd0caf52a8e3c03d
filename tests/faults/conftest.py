"""What tests of faults share."""

import pytest

from tests.fakes.qdrant import FakeQdrant


@pytest.fixture(params=["embedded", pytest.param("server", marks=pytest.mark.server)])
def engine(request, tmp_path):
    """Environment of other processes that chooses an engine."""
    if request.param == "embedded":
        yield {}
        return
    with FakeQdrant(tmp_path / "engine") as server:
        yield {"QDRANT_URL": server.url}
