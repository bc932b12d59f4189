"""A server that speaks OpenAI's protocol: its client opened when it is needed, and its failures as ours."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from elytron_core import limits
from elytron_core.errors import InvalidInput, MissingExtra, ModelRefused, ModelUnavailable

if TYPE_CHECKING:
    from openai import AsyncOpenAI

OFFICIAL: Final = "https://api.openai.com/v1"
_LATER = frozenset({408, 409, 429})


class OpenAIService:
    """Gives the client of one server, for one event loop at a time. The key is sent to it and shown nowhere."""

    def __init__(
        self, told: str, /, *, base_url: str | None, api_key: str | None, timeout_s: float, attempts: int
    ) -> None:
        if not 1 <= attempts <= limits.MODEL_ATTEMPTS * 3:
            raise InvalidInput(field="attempts", problem=f"is not 1 to {limits.MODEL_ATTEMPTS * 3}")
        if not 0 < timeout_s <= limits.MODEL_TIMEOUT_S * 10:
            raise InvalidInput(field="timeout_s", problem=f"is not above 0 and up to {limits.MODEL_TIMEOUT_S * 10:.0f}")
        if find_spec("openai") is None:
            raise MissingExtra(extra="llm", purpose=f"{told} behind OpenAI's protocol")
        self.told = told
        self.base_url = base_url or OFFICIAL
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._attempts = attempts
        self._client: AsyncOpenAI | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def client(self) -> "AsyncOpenAI":
        """Return the client, opened where there is none for this loop."""
        loop = asyncio.get_running_loop()
        if self._client is not None and self._loop is loop:
            return self._client
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        self._client = AsyncOpenAI(
            base_url=self.base_url,
            api_key=self._api_key or "none",
            timeout=self._timeout_s,
            max_retries=self._attempts - 1,
            # What runs on this machine is reached without the proxy that the environment names for the rest.
            http_client=DefaultAsyncHttpxClient(trust_env=False) if _is_here(self.base_url) else None,
        )
        # The client fills these from the environment; what a library sends, its user has said.
        self._client.organization = None
        self._client.project = None
        self._loop = loop
        return self._client

    @contextmanager
    def asking(self, *, check: str, wanted: str, closed: frozenset[int] = frozenset()) -> Generator[None]:
        """Turn what the client raises in the block into ModelUnavailable or ModelRefused, which hold nothing sent.

        `check` is the way out of a refusal, `wanted` what should have come; a status in `closed` counts as unavailable.
        """
        import openai

        try:
            yield
        except openai.APIStatusError as error:
            status = error.status_code
            if status in _LATER or status >= 500:
                raise ModelUnavailable(f"{self.told} answered {status}: try again later") from None
            if status in closed:
                raise ModelUnavailable(f"{self.told} answered {status}: check the key") from None
            raise ModelRefused(f"{self.told} answered {status}: {check}") from None
        except openai.APITimeoutError:
            raise ModelUnavailable(f"{self.told} did not answer in {self._timeout_s:g} s") from None
        except openai.APIConnectionError:
            raise ModelUnavailable(f"{self.told} cannot be reached: check base_url") from None
        except (openai.OpenAIError, ValueError):
            raise ModelRefused(f"{self.told} gave no {wanted}: check base_url") from None

    async def close(self) -> None:
        """Let go of the connections; the next call opens them again."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
