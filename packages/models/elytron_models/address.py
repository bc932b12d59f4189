"""The one grammar for models: `dialect:name[@url]`, and where a model's key comes from."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from elytron_core import limits
from elytron_core.errors import InvalidInput

KEY_VARIABLE: Final = "ELYTRON_MODEL_KEY"
_FORM: Final = "dialect:name[@url], for example openai:gpt-5, ollama:llama3.2 or chat:name@http://host/v1"
_URL: Final = re.compile(r"@(?=https?://)")
_NAME: Final = re.compile(rf"[\x21-\x7e]{{1,{limits.MODEL_NAME_CHARS}}}")
_KEY: Final = re.compile(r"[\x21-\x7e]{1,500}")


@dataclass(frozen=True, slots=True)
class ModelVendor:
    """Meaning of a prefix: a dialect, by its module's name, and the usual server and key variable, if any."""

    dialect: str
    url: str | None = None
    key_variable: str | None = None
    needs_key: bool = False
    """True if the usual server refuses every request without a key."""


VENDORS: Final[Mapping[str, ModelVendor]] = {
    "anthropic": ModelVendor("messages", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", needs_key=True),
    "chat": ModelVendor("chat"),
    "messages": ModelVendor("messages"),
    "ollama": ModelVendor("ollama", "http://127.0.0.1:11434", "OLLAMA_API_KEY"),
    "openai": ModelVendor("responses", "https://api.openai.com/v1", "OPENAI_API_KEY", needs_key=True),
    "responses": ModelVendor("responses"),
}


@dataclass(frozen=True, slots=True)
class ModelAddress:
    """A model on a server. `str` of it is the address as it is written, without what is usual."""

    prefix: str
    model: str
    url: str

    def __str__(self) -> str:
        return f"{self.prefix}:{self.model}" + ("" if self.is_official else f"@{self.url}")

    @property
    def vendor(self) -> ModelVendor:
        return VENDORS[self.prefix]

    @property
    def is_official(self) -> bool:
        """Return whether the server is the usual one of the prefix."""
        return self.url == self.vendor.url

    @property
    def needs_key(self) -> bool:
        """Return whether the server refuses every request without a key."""
        return self.is_official and self.vendor.needs_key

    @property
    def key_variables(self) -> str:
        """Return the variables that the key is read from, for a message."""
        own = self.vendor.key_variable if self.is_official else None
        return f"{own} or {KEY_VARIABLE}" if own is not None else KEY_VARIABLE

    @property
    def issuer(self) -> str:
        """Return the mark of what this model issues and takes back."""
        return f"{self.vendor.dialect}:{self.model}@{self.url}"


def address_of(text: str, /, *, field: str = "model") -> ModelAddress:
    """Return the address that `text` writes. Raises InvalidInput, which names `field` and repeats nothing of `text`."""
    prefix, colon, rest = text.partition(":")
    if not colon or prefix not in VENDORS:
        raise InvalidInput(field=field, problem=f"names no dialect of {', '.join(VENDORS)}: write {_FORM}")
    *names, url = _URL.split(rest) if _URL.search(rest) else (rest, VENDORS[prefix].url)
    name = "@".join(part for part in names if part is not None)
    if not _NAME.fullmatch(name):
        raise InvalidInput(field=field, problem=f"has no name after the dialect: write {_FORM}")
    if url is None:
        raise InvalidInput(field=field, problem=f"has no server, and {prefix!r} has no usual one: write {_FORM}")
    return ModelAddress(prefix=prefix, model=name, url=_checked_url(url, field))


def key_of(address: ModelAddress, environment: Mapping[str, str], /) -> str:
    """Return the key for a model: ELYTRON_MODEL_KEY, else the vendor's own variable, else an empty one.

    The vendor's key is for the vendor's server alone. Raises InvalidInput for a key that no header can hold.
    """
    own = address.vendor.key_variable if address.is_official else None
    for variable in (KEY_VARIABLE, own):
        if variable is not None and (key := environment.get(variable, "").strip()):
            return checked_key(key, field=variable)
    return ""


def require_key(address: ModelAddress, environment: Mapping[str, str], /) -> None:
    """Raise InvalidInput, by the variable's name, if the model needs a key and `environment` has none."""
    if address.needs_key and not key_of(address, environment):
        field = address.vendor.key_variable or KEY_VARIABLE
        raise InvalidInput(field=field, problem=f"is not set: {address} needs a key in {address.key_variables}")


def checked_key(key: str, /, *, field: str) -> str:
    """Return `key`. Raises InvalidInput if it is not a key; the message does not repeat it."""
    if key and not _KEY.fullmatch(key):
        raise InvalidInput(field=field, problem="is no key: printable ASCII without spaces")
    return key


def _checked_url(url: str, field: str) -> str:
    problem = "has an address that names no server: http:// or https:// and a host"
    try:
        parts = urlsplit(url)
        is_server = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise InvalidInput(field=field, problem=problem) from None
    if not is_server:
        raise InvalidInput(field=field, problem=problem)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        problem = f"has more than scheme, host, port and path in its address: give a key in {KEY_VARIABLE}"
        raise InvalidInput(field=field, problem=problem)
    return url.rstrip("/")
