"""The connection to a Qdrant server: from the environment, with time limits, retries and a version check."""

import math
import os
import re
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from qdrant_client import QdrantClient

from evalkit.errors import InfrastructureError, InputError
from evalkit.qdrant_errors import Conflict, client_errors, status_errors
from evalkit.transport import (
    Deadline,
    is_loopback,
    refuse_key_over_plain_http,
    retry,
    time_limits,
    without_credentials,
)

LOWEST_VERSION = (1, 16)
"""The first Qdrant with metadata of collections, which hold the state."""

DEFAULT_TIMEOUT = 30.0
GRPC_PORT = 6334

T = TypeVar("T")


class Connection:
    """A checked connection; every request through `ask` is bounded, repeated where that helps, and counted.

    None of the requests made in this package does harm when it is done twice. One is repeated when the server does
    not answer, is busy (429, waiting as long as it asks) or fails (5xx).

    Parameters
    ----------
    url
        Where the server is; port 6333 when it names none.
    key
        API key, or None.
    grpc_port
        Port for gRPC; None for REST.
    timeout
        Seconds that one request may take.
    deadline
        No request starts after it.

    Attributes
    ----------
    client
        The client of the server; calls go through `ask`.
    url
        The server as records and errors may show it.
    version
        Version of the server.

    Raises
    ------
    InputError
        The key is refused; a server older than `LOWEST_VERSION`.
    InfrastructureError
        The server cannot be reached, or what answers is not Qdrant.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        grpc_port: int | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        deadline: Deadline | None = None,
    ) -> None:
        self.url = without_credentials(url)
        self._deadline = deadline or Deadline()
        self._timeout = timeout
        self._counts: Counter[str] = Counter()
        self._counting = threading.Lock()
        with warnings.catch_warnings():
            # Plain http is ruled on in `connect`.
            warnings.filterwarnings("ignore", message="Api key is used with an insecure connection")
            self.client = QdrantClient(
                url=self.url,
                api_key=key,
                prefer_grpc=grpc_port is not None,
                grpc_port=grpc_port or GRPC_PORT,
                timeout=math.ceil(timeout),
                check_compatibility=False,
                # As for Ollama: this machine's own server is not asked through a proxy, and plain http has no
                # certificates to check, which take longer to load than a request.
                trust_env=not is_loopback(urlsplit(self.url).hostname or ""),
                verify=self.url.startswith("https:"),
                event_hooks=time_limits(timeout, self._deadline),
            )
        self.client.http.client.add_middleware(status_errors(self.url))
        try:
            self.version = self._checked_version()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all connections; a second call does nothing."""
        self.client.close()

    @property
    def counts(self) -> dict[str, int]:
        """Count requests, and the retries among them."""
        return {name: self._counts[name] for name in ("store_requests", "store_retries")}

    def ask(self, what: str, call: Callable[[], T]) -> T:
        """Make one request.

        Parameters
        ----------
        what
            What is being done, for errors and the log.
        call
            Calls `client`; a `qdrant_errors.Conflict` of its own it has to catch itself.

        Raises
        ------
        InputError, InfrastructureError
            See `qdrant_errors.client_errors` and `transport.retry`.
        """

        def mapped() -> T:
            try:
                with client_errors(self.url):
                    return call()
            except Conflict as conflict:
                raise InputError(str(conflict)) from None

        counts: Counter[str] = Counter()
        try:
            return retry(mapped, f"Qdrant: {what}", self._deadline, counts, prefix="store_")
        finally:
            with self._counting:
                self._counts.update(counts)

    def seconds(self) -> int:
        """Give the whole seconds that the next request may take, for gRPC, where nothing else limits it."""
        return max(1, math.ceil(min(self._timeout, self._deadline.remaining())))

    def _checked_version(self) -> str:
        version = self.ask("asking for the version", self.client.info).version
        numbers = re.match(r"(\d+)\.(\d+)", version)
        if numbers is None:
            raise InfrastructureError(
                f"{self.url} names {version[:50]!r} as its version, which is none of Qdrant's; check QDRANT_URL"
            )
        if tuple(map(int, numbers.groups())) < LOWEST_VERSION:
            raise InputError(
                f"{self.url} runs Qdrant {version}; {'.'.join(map(str, LOWEST_VERSION))} or newer is needed, because "
                "the state of a collection is kept in its metadata: upgrade the server"
            )
        return version


def connect(deadline: Deadline | None = None) -> Connection:
    """Connect to the server that ``QDRANT_URL`` names.

    ``QDRANT_API_KEY`` is its key, ``QDRANT_PREFER_GRPC`` (1 or 0) chooses gRPC at ``QDRANT_GRPC_PORT`` (6334),
    ``QDRANT_TIMEOUT`` is in seconds (30).

    Raises
    ------
    InputError
        See `Connection`; a variable whose value cannot be used; a key that would go unencrypted to another machine.
    InfrastructureError
        See `Connection`.
    """
    url = _checked_url(os.environ.get("QDRANT_URL", "").strip())
    refuse_key_over_plain_http(url, "QDRANT_API_KEY")
    prefer_grpc = os.environ.get("QDRANT_PREFER_GRPC", "").strip().lower()
    if prefer_grpc not in ("", "0", "1", "false", "true"):
        raise InputError(f"QDRANT_PREFER_GRPC is {prefer_grpc!r}; set it to 1 for gRPC or 0 for REST")
    port = int(_number("QDRANT_GRPC_PORT", GRPC_PORT, 65535))
    return Connection(
        url,
        _key(),
        grpc_port=port if prefer_grpc in ("1", "true") else None,
        timeout=_number("QDRANT_TIMEOUT", DEFAULT_TIMEOUT, 86_400),
        deadline=deadline,
    )


def _checked_url(url: str) -> str:
    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or re.search(r"\s", host):
        raise InputError(
            "QDRANT_URL is no URL of a server; give one such as http://localhost:6333 or https://name.example:6333"
        )
    if parts.username or parts.password:
        raise InputError(
            f"QDRANT_URL holds a user name or password, which Qdrant does not know; put the key into QDRANT_API_KEY "
            f"and set QDRANT_URL={without_credentials(full)}"
        )
    return full


def _key() -> str | None:
    key = os.environ.get("QDRANT_API_KEY", "").strip()
    if not (key.isascii() and key.isprintable()):
        raise InputError("QDRANT_API_KEY holds characters that no request can carry; copy the key again")
    return key or None


def _number(name: str, default: float, largest: float) -> float:
    text = os.environ.get(name, "").strip()
    try:
        value = float(text) if text else default
    except ValueError:
        value = math.nan
    if not 0 < value <= largest:
        raise InputError(f"{name} is {text!r}; give a number above 0, at most {largest:g}")
    return value
