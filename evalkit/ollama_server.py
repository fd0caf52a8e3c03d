"""Requests to an Ollama server: its address, statuses and failures told apart, retries of what may pass."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from evalkit.errors import InfrastructureError, InputError
from evalkit.transport import (
    Deadline,
    Transient,
    is_loopback,
    refuse_key_over_plain_http,
    retry,
    retry_after,
    time_limits,
    without_secrets,
)

T = TypeVar("T")

API_KEY = "OLLAMA_API_KEY"
DEFAULT_PORTS = {"http": 80, "https": 443}
TRANSIENT = frozenset({429, 500, 502, 503, 504})


class Refused(Exception):
    """An answer other than 200: its code, and what it says without secrets."""

    def __init__(self, response: httpx.Response) -> None:
        response.read()
        self.code = response.status_code
        self.retry_after = retry_after(response.headers)
        self.location = without_secrets(response.headers.get("location", "").partition("?")[0])[:200]
        try:
            answer = response.json()
            text = answer["error"] if isinstance(answer, dict) and "error" in answer else response.text
        except ValueError:
            text = response.text
        super().__init__(f"HTTP status {self.code}: {without_secrets(' '.join(str(text).split()))[:200]}")


def server_url() -> str:
    """Give the address of the server: ``OLLAMA_HOST`` read as Ollama reads it, else http://127.0.0.1:11434.

    Raises
    ------
    InputError
        Not an address, or one that holds a password.
    """
    scheme, given, rest = os.environ.get("OLLAMA_HOST", "").strip().rpartition("://")
    scheme = scheme or "http"
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        port = parts.port or (DEFAULT_PORTS[scheme] if given else 11434)
    except (ValueError, KeyError):
        raise InputError(
            "OLLAMA_HOST is no address; set it like 127.0.0.1:11434 or https://name:port"
        ) from None
    if "@" in parts.netloc:
        raise InputError(
            f"OLLAMA_HOST holds a password; take it out, and set {API_KEY} if the server wants a key"
        )
    name = parts.hostname or "127.0.0.1"
    return f"{scheme}://{f'[{name}]' if ':' in name else name}:{port}{parts.path.rstrip('/')}"


class OllamaServer:
    """One server, through Ollama's own client.

    Parameters
    ----------
    timeout
        Seconds that one request may take as a whole.
    deadline
        End of all requests and retries.
    counts
        ``ollama_requests`` and ``ollama_retries`` are added to.

    Raises
    ------
    InputError
        ``OLLAMA_HOST`` is no address, or a key would go over plain http to another machine.
    """

    def __init__(self, timeout: float, deadline: Deadline, counts: Counter[str]) -> None:
        self.url = server_url()
        # The package reads OLLAMA_HOST while it is imported, and its complaint would show a password in there.
        import ollama

        refuse_key_over_plain_http(self.url, API_KEY)
        self.last_status = 0
        self._timeout, self._deadline, self._counts = timeout, deadline, counts
        hooks = time_limits(timeout, deadline)
        hooks["response"].append(self._note_status)
        # A proxy that the environment names is not asked for this machine's own server, and loading certificates
        # takes longer than a request over plain http, which has none to check.
        self._options: dict[str, Any] = {
            "event_hooks": hooks,
            "trust_env": not is_loopback(urlsplit(self.url).hostname or ""),
            "verify": self.url.startswith("https:"),
            "follow_redirects": False,
        }
        self._client = ollama.Client(self.url, **self._options)

    def version(self) -> str:
        """Ask for the version of the server; Ollama's client has no call for it."""
        headers = {"Authorization": f"Bearer {os.environ[API_KEY]}"} if os.environ.get(API_KEY) else {}
        with httpx.Client(headers=headers, **self._options) as client:
            return self._call(
                "asking Ollama for its version",
                lambda: str(client.get(f"{self.url}/api/version").json()["version"]),
            )

    def digest(self, model: str) -> str:
        """Ask for the digest of a model; only the list of models has it.

        Raises
        ------
        InputError
            The server does not have the model; the text lists what it has.
        """
        models = self._call("asking Ollama for its models", lambda: self._client.list().models)
        wanted = model if ":" in model.rpartition("/")[2] else f"{model}:latest"
        for one in models:
            if one.model and one.model.lower() == wanted.lower():
                if not one.digest:
                    raise InfrastructureError(f"{self.url} lists {one.model} without a digest; update Ollama")
                return one.digest if ":" in one.digest else f"sha256:{one.digest}"
        there = ", ".join(sorted(one.model for one in models if one.model)) or "none"
        raise InputError(
            f"Ollama at {self.url} does not have the model {wanted}; get it with `ollama pull {wanted}`, "
            f"or name one of those it has: {there}"
        )

    def embed(
        self, model: str, texts: Sequence[str], what: str, final: frozenset[int]
    ) -> Sequence[Sequence[float]]:
        """Embed texts, none of them cut; a status in `final` raises `Refused` at once."""
        return self._call(what, lambda: self._client.embed(model, texts, truncate=False).embeddings, final)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()  # type: ignore[no-untyped-call]

    def _call(self, what: str, request: Callable[[], T], final: frozenset[int] = frozenset()) -> T:
        def attempt() -> T:
            try:
                return request()
            except Refused as refused:
                if refused.code in final:
                    raise
                raise self._translated(what, refused) from None
            except httpx.TimeoutException:
                step = "see what the server is doing (`ollama ps`), or raise `embed_timeout`"
                raise Transient(f"no whole answer from {self.url} in {self._timeout:g} s", step) from None
            except (ConnectionError, httpx.ConnectError):
                raise Transient(f"nothing answers at {self.url}", self._start_it()) from None
            except httpx.RequestError as error:
                reason = f"the connection to {self.url} broke ({type(error).__name__})"
                raise Transient(reason, "look into the server's log, or at the proxy in between") from None
            except (ValueError, TypeError, KeyError):
                # Not JSON, or JSON of another shape; the client does not tell these apart.
                raise InfrastructureError(
                    f"{what}: {self.url} answered something that Ollama does not send, such as the page of a "
                    "proxy; check OLLAMA_HOST and what stands between here and there, and update Ollama"
                ) from None

        return retry(attempt, what, self._deadline, self._counts, prefix="ollama_")

    def _translated(self, what: str, refused: Refused) -> Exception:
        text = f"{self.url} answered {refused}"
        if refused.code in TRANSIENT:
            return Transient(
                text, "look into the server's log; it may be busy or short of memory", refused.retry_after
            )
        if refused.code in (401, 403):
            return InfrastructureError(f"{what}: {text}; set {API_KEY} to a key that this server takes")
        if 300 <= refused.code < 400:
            return InfrastructureError(
                f"{what}: {text}, a redirect to {refused.location!r}; set OLLAMA_HOST to the final address"
            )
        if refused.code == 404:
            return InfrastructureError(f"{what}: {text}; is OLLAMA_HOST the address of an Ollama server?")
        return InfrastructureError(f"{what}: {text}; look into the server's log")

    def _start_it(self) -> str:
        step = "start it with `ollama serve`, or set OLLAMA_HOST to where it runs"
        given = os.environ.get("OLLAMA_HOST", "").strip().rstrip("/")
        if urlsplit(self.url).port == 80 and not given.endswith(":80"):
            step += f" (without a port http means 80; Ollama listens on 11434: OLLAMA_HOST={given}:11434)"
        return step

    def _note_status(self, response: httpx.Response) -> None:
        self.last_status = response.status_code
        if response.status_code != 200:
            raise Refused(response)
