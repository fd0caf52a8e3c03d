"""What every remote call shares: a deadline, bounded retries, and no key in the clear."""

import ipaddress
import logging
import math
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from evalkit.errors import InfrastructureError, InputError

ALLOWED_HOSTS = "EVALKIT_ALLOW_PLAIN_HTTP_HOSTS"
KEYS = ("OLLAMA_API_KEY", "QDRANT_API_KEY")
ATTEMPTS = 4
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 120.0

_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD)$")
_URL_CREDENTIALS = re.compile(r"^\w+://([^/@\s]+)@")

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Deadline:
    """Time that a piece of work may take, counted from now.

    Parameters
    ----------
    seconds
        None for no limit.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    def remaining(self) -> float:
        """Give the seconds left: infinite without a limit, never negative."""
        return max(self._end - time.monotonic(), 0.0)

    def check(self, what: str) -> None:
        """Raise InfrastructureError when the time is over; ``what`` says what was being done."""
        if self.remaining() <= 0.0:
            raise InfrastructureError(
                f"the deadline of {self.seconds:g} s passed while {what}; "
                "find out what is slow, or give a longer deadline"
            )


class Transient(Exception):
    """A failure that another attempt may not meet.

    Parameters
    ----------
    reason
        What was seen, without credentials.
    next_step
        What a user can do when it does not go away.
    retry_after
        Seconds that the server asked to wait.
    """

    def __init__(self, reason: str, next_step: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.reason, self.next_step, self.retry_after = reason, next_step, retry_after


def retry(call: Callable[[], T], what: str, deadline: Deadline, counts: Counter[str], prefix: str = "") -> T:
    """Call until it works, at most `ATTEMPTS` times, with growing pauses and within the deadline.

    Parameters
    ----------
    call
        Raises `Transient` for what is worth another attempt; everything else passes through.
    what
        What is being done, such as ``embedding 32 prompts``, for errors and the log.
    deadline
        No attempt starts and no pause ends after it.
    counts
        ``requests`` and ``retries`` are added to, for the run record.
    prefix
        Stands before both names, such as ``ollama_``.

    Raises
    ------
    InfrastructureError
        The last attempt failed too, or waiting for another would pass the deadline.
    """
    for attempt in range(1, ATTEMPTS + 1):
        deadline.check(what)
        counts[f"{prefix}requests"] += 1
        try:
            return call()
        except Transient as failure:
            last = failure
        if attempt == ATTEMPTS:
            break
        pause = _pause(attempt, last.retry_after)
        if pause > LONGEST_PAUSE or pause >= deadline.remaining():
            limit = (
                "the deadline"
                if pause <= LONGEST_PAUSE
                else f"the {LONGEST_PAUSE:g} s that is waited at most"
            )
            raise InfrastructureError(
                f"{what}: {last.reason}; waiting {round(pause, 1):g} s for another attempt would pass {limit}; "
                f"{last.next_step}"
            )
        counts[f"{prefix}retries"] += 1
        _log.warning("%s: %s; attempt %d of %d in %.1f s", what, last.reason, attempt + 1, ATTEMPTS, pause)
        time.sleep(pause)
    raise InfrastructureError(f"{what}: {last.reason}, still so after {ATTEMPTS} attempts; {last.next_step}")


def _pause(attempt: int, retry_after: float | None) -> float:
    if retry_after is not None:
        return retry_after
    return FIRST_PAUSE * 2.0 ** (attempt - 1) * random.uniform(0.5, 1.0)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read a Retry-After header.

    Parameters
    ----------
    headers
        Names in lower case, or a mapping that ignores case.

    Returns
    -------
    float or None
        Seconds from now, 0 for a time that has passed; None when it is missing or neither seconds nor a date.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdecimal():
        return float(value)
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max((when - datetime.now(UTC)).total_seconds(), 0.0)


def time_limits(seconds: float, deadline: Deadline) -> dict[str, list[Callable[[Any], None]]]:
    """Make ``event_hooks`` for an httpx client that bound each request as a whole.

    The time-out of httpx holds for each read; a server that drips bytes would never meet it.

    Parameters
    ----------
    seconds
        What one request may take from start to the last byte of the answer.
    deadline
        A request is given no more than what is left of it.
    """
    import httpx

    class TimedStream(httpx.SyncByteStream):
        def __init__(self, stream: httpx.SyncByteStream, request: httpx.Request) -> None:
            self.stream, self.request = stream, request

        def __iter__(self) -> Iterator[bytes]:
            for part in self.stream:
                if time.monotonic() > self.request.extensions["evalkit_end"]:
                    raise httpx.ReadTimeout("the answer took too long as a whole", request=self.request)
                yield part

        def close(self) -> None:
            self.stream.close()

    def before(request: httpx.Request) -> None:
        left = min(seconds, max(deadline.remaining(), 0.001))
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), left)
        request.extensions["evalkit_end"] = time.monotonic() + left

    def after(response: httpx.Response) -> None:
        if isinstance(response.stream, httpx.SyncByteStream):
            response.stream = TimedStream(response.stream, response.request)

    return {"request": [before], "response": [after]}


def is_loopback(host: str) -> bool:
    """Tell whether a host name or address is this machine."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
        return address.is_loopback or address.is_unspecified
    except ValueError:
        return host.lower() == "localhost"


def without_credentials(url: str) -> str:
    """Give scheme, host, port and path of a URL: what may stand in records and errors."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")


def without_secrets(text: str) -> str:
    """Put names in place of secrets in a text that came from elsewhere, before it is shown or stored.

    Parameters
    ----------
    text
        Any text, such as another library's error or an executed notebook.

    Returns
    -------
    str
        The text with ``<NAME>`` for the value of each environment variable that holds a key, token, secret or
        password by its name (six characters at least), and for user and password within a URL.
    """
    for name, value in os.environ.items():
        for secret in [value] if _SECRET_NAME.search(name) else _URL_CREDENTIALS.findall(value):
            if len(secret) >= 6 or (secret and name in KEYS):
                text = text.replace(secret, f"<{name}>")
    return text


def refuse_key_over_plain_http(url: str, key_name: str) -> None:
    """Refuse to send a key unencrypted to another machine.

    Parameters
    ----------
    url
        Where requests go; without a scheme it counts as http.
    key_name
        Environment variable that holds the key; nothing to refuse when it is not set.

    Raises
    ------
    InputError
        The key is set, the URL is plain http, its host is not this machine and not listed by name in
        ``EVALKIT_ALLOW_PLAIN_HTTP_HOSTS`` (commas between names).
    """
    if not os.environ.get(key_name):
        return
    shown = without_credentials(url)
    host = (urlsplit(shown).hostname or "").lower()
    allowed = {name.strip().lower() for name in os.environ.get(ALLOWED_HOSTS, "").split(",")}
    if urlsplit(shown).scheme != "http" or is_loopback(host) or host in allowed:
        return
    raise InputError(
        f"{key_name} would go unencrypted to {shown}; use https, or unset {key_name} if the server needs none; "
        f"if everything between here and there is trusted, set {ALLOWED_HOSTS}={host}"
    )
