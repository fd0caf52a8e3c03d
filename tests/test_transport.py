import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit import transport
from evalkit.errors import InfrastructureError, InputError
from evalkit.transport import (
    Deadline,
    Transient,
    is_loopback,
    refuse_key_over_plain_http,
    retry,
    retry_after,
    without_credentials,
    without_secrets,
)


@pytest.fixture
def pauses(monkeypatch):
    """Pauses that were asked for; none is waited."""
    asked = []
    monkeypatch.setattr(transport.time, "sleep", asked.append)
    return asked


def failing(times, retry_after=None):
    left = [times]

    def call():
        if left[0]:
            left[0] -= 1
            raise Transient("the line was busy", "call later", retry_after)
        return "answer"

    return call


def test_retry_gives_the_answer_and_counts_what_it_took(pauses):
    counts = Counter()
    assert retry(failing(2), "calling", Deadline(), counts, prefix="ollama_") == "answer"
    assert counts == {"ollama_requests": 3, "ollama_retries": 2}
    first, second = pauses
    assert transport.FIRST_PAUSE / 2 <= first <= transport.FIRST_PAUSE <= second <= 2 * transport.FIRST_PAUSE


def test_retry_ends(pauses):
    counts = Counter()
    with pytest.raises(
        InfrastructureError, match=r"calling: the line was busy.*4 attempts; call later"
    ) as caught:
        retry(failing(99), "calling", Deadline(), counts)
    assert counts == {"requests": transport.ATTEMPTS, "retries": transport.ATTEMPTS - 1}
    assert caught.value.__cause__ is None


def test_other_errors_pass_through_at_once(pauses):
    counts = Counter()

    def call():
        raise InputError("no such thing")

    with pytest.raises(InputError):
        retry(call, "calling", Deadline(), counts)
    assert counts == {"requests": 1}


def test_retry_waits_as_long_as_the_server_asks(pauses):
    retry(failing(1, retry_after=7.0), "calling", Deadline(60), Counter())
    assert pauses == [7.0]


def test_retry_does_not_wait_past_the_deadline(pauses):
    with pytest.raises(InfrastructureError, match=r"waiting 7 s for another attempt would pass the deadline"):
        retry(failing(1, retry_after=7.0), "calling", Deadline(5), Counter())
    assert pauses == []


def test_retry_does_not_wait_for_hours(pauses):
    with pytest.raises(InfrastructureError, match=r"waiting 3600 s .* the 120 s that is waited at most"):
        retry(failing(1, retry_after=3600.0), "calling", Deadline(), Counter())


def test_no_attempt_after_the_deadline():
    counts = Counter()
    with pytest.raises(InfrastructureError, match=r"deadline of 0 s passed while calling"):
        retry(failing(0), "calling", Deadline(0), counts)
    assert counts == {}


def test_deadline():
    assert Deadline().remaining() == float("inf")
    Deadline().check("anything")
    deadline = Deadline(1000)
    assert 0 < deadline.remaining() <= 1000
    before = deadline.remaining()
    time.sleep(0.001)
    assert deadline.remaining() < before


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("3", 3.0), (" 0 ", 0.0), ("", None), ("soon", None), ("-3", None), ("1.5", None), ("٣", None)],
)
def test_retry_after_seconds(value, seconds):
    assert retry_after({"retry-after": value}) == seconds


def test_retry_after_date():
    now = datetime.now(UTC)
    assert 50 < retry_after({"retry-after": format_datetime(now + timedelta(seconds=60))}) <= 60
    assert retry_after({"retry-after": format_datetime(now - timedelta(seconds=60))}) == 0.0
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00"}) == 0.0
    assert retry_after({}) is None


@given(st.text(alphabet=st.characters(codec="latin-1"), max_size=40))
def test_no_retry_after_header_breaks_a_run(value):
    seconds = retry_after({"retry-after": value})
    assert seconds is None or seconds >= 0


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "::1", "[::1]", "0.0.0.0"]
)
def test_this_machine(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["localhost.example.com", "10.0.0.1", "example.com", "", "127.0.0.1.nip.io"])
def test_other_machines(host):
    assert not is_loopback(host)


def test_key_over_plain_http(monkeypatch):
    refuse_key_over_plain_http("http://db.example.com:6333", "QDRANT_API_KEY")
    monkeypatch.setenv("QDRANT_API_KEY", "s3cret-marker")
    refuse_key_over_plain_http("https://db.example.com", "QDRANT_API_KEY")
    refuse_key_over_plain_http("http://127.0.0.1:6333", "QDRANT_API_KEY")
    for url in ("http://db.example.com:6333", "db.example.com", "HTTP://me:pw@DB.example.com/x?y=z"):
        with pytest.raises(InputError, match=r"EVALKIT_ALLOW_PLAIN_HTTP_HOSTS=db.example.com") as caught:
            refuse_key_over_plain_http(url, "QDRANT_API_KEY")
        assert "s3cret" not in str(caught.value)
        assert "pw" not in str(caught.value)
    monkeypatch.setenv("EVALKIT_ALLOW_PLAIN_HTTP_HOSTS", "other, DB.example.com")
    refuse_key_over_plain_http("http://db.example.com:6333", "QDRANT_API_KEY")
    with pytest.raises(InputError):
        refuse_key_over_plain_http("http://db.example.com.evil.org", "QDRANT_API_KEY")


def test_what_may_be_shown(monkeypatch):
    assert without_credentials("http://me:pw@host:1/a/?key=1#x") == "http://host:1/a"
    assert without_credentials("host:1") == "http://host:1"
    assert without_credentials("https://[::1]:6333/") == "https://[::1]:6333"
    monkeypatch.setenv("OLLAMA_API_KEY", "s3cret-marker")
    assert without_secrets("Bearer s3cret-marker is wrong") == "Bearer <OLLAMA_API_KEY> is wrong"
