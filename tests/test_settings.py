import math

import pytest

from evalkit.errors import InputError
from evalkit.settings import EvaluateSettings, IndexSettings


def test_defaults_run_offline():
    settings = EvaluateSettings.checked(dataset="worker-runbooks")
    assert settings.ks == (1, 3, 5)
    assert settings.embedder == "recorded"
    assert settings.threshold is None
    assert settings.deadline == 120


def test_a_whole_number_is_a_number_and_a_tuple_a_list():
    settings = EvaluateSettings.checked(dataset="x", threshold=0, deadline=10, ks=(2, 4))
    assert (settings.threshold, settings.deadline, settings.ks) == (0.0, 10.0, (2, 4))
    assert isinstance(settings.threshold, float)


@pytest.mark.parametrize("threshold", [-1, 0, 1])
def test_a_threshold_may_be_any_cosine(threshold):
    assert EvaluateSettings.checked(dataset="x", threshold=threshold).threshold == threshold


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"ks": [0]}, "ks[0]"),
        ({"ks": [2**63]}, "ks[0]"),
        ({"ks": ["three"]}, "'three'"),
        ({"ks": []}, "at least one cutoff"),
        ({"ks": [3, 1]}, "ks: must ascend without repeats, found [3, 1]"),
        ({"ks": [1, 1]}, "ascend"),
        ({"ks": [True]}, "ks[0]"),
        ({"kss": [1]}, "unknown field kss; did you mean ks?"),
        ({"embedder": "openai"}, "'openai'"),
        ({"deadline": 0}, "deadline"),
        ({"threshold": True}, "threshold"),
        ({"threshold": math.nan}, "threshold"),
        ({"threshold": 2}, "threshold: scores are cosines, from -1 to 1, so every hit or none would be kept"),
        ({"threshold": -1.001}, "or leave it out, found -1.001"),
        ({"collection": "../elsewhere"}, "collection"),
        ({"exact": "true"}, "exact"),
    ],
)
def test_faults_are_named(values, named):
    with pytest.raises(InputError, match=r"^settings: 1 fault") as caught:
        EvaluateSettings.checked(dataset="worker-runbooks", **values)
    assert named in str(caught.value)


def test_all_faults_at_once():
    with pytest.raises(InputError) as caught:
        IndexSettings.checked(dataset="", upsert_batch=0, nonsense=1)
    assert all(name in str(caught.value) for name in ("dataset", "upsert_batch", "nonsense"))
    assert str(caught.value).count("\n- ") == 3
