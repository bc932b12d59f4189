"""The syntax of model addresses, and where their keys come from."""

import pytest

from elytron_core.errors import InvalidInput, ModelRefused
from elytron_core.ports.chat import ChatRole, FailureReason, InputMessage, ModelRequest, ReplyFailed, TextPart
from elytron_models import ModelAddress, address_of, ask, error_of, key_of, open_model, require_key
from elytron_models.server import VENDORS

CANARY = "canary-9d41"


@pytest.mark.parametrize(
    ("text", "model", "url"),
    [
        ("openai:gpt-5", "gpt-5", "https://api.openai.com/v1"),
        ("anthropic:claude-sonnet-5", "claude-sonnet-5", "https://api.anthropic.com/v1"),
        ("ollama:llama3.2:3b", "llama3.2:3b", "http://127.0.0.1:11434"),
        ("ollama:qwen3@http://host:11434/", "qwen3", "http://host:11434"),
        ("chat:org/name@http://host/v1", "org/name", "http://host/v1"),
        ("chat:@cf/meta/llama@https://host/v1", "@cf/meta/llama", "https://host/v1"),
        ("responses:m@20250101@http://[::1]:80/v1", "m@20250101", "http://[::1]:80/v1"),
    ],
)
def test_an_address_is_a_dialect_a_name_and_optionally_a_server(text: str, model: str, url: str) -> None:
    address = address_of(text)
    assert address == ModelAddress(prefix=text.partition(":")[0], model=model, url=url)
    assert address_of(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        CANARY,
        f"{CANARY}:gpt-5",
        "openai:",
        "openai: gpt",
        "chat:m",
        "messages:m",
        "openai:m\u200b",
        "ollama:" + "x" * 201,
        f"chat:m@http://user:{CANARY}@host/v1",
        f"chat:m@https://host/v1?key={CANARY}",
        "chat:m@http://",
        "chat:m@http://host:99999/v1",
        "chat:m@http://[::1/v1",
    ],
)
def test_invalid_addresses_are_rejected_and_not_echoed(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        address_of(text)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "environment", "key"),
    [
        ("openai:m", {"OPENAI_API_KEY": "own"}, "own"),
        ("anthropic:m", {"ANTHROPIC_API_KEY": "own", "OPENAI_API_KEY": "other"}, "own"),
        ("openai:m", {"OPENAI_API_KEY": "own", "ELYTRON_MODEL_KEY": "ours"}, "ours"),
        ("openai:m", {"OPENAI_API_KEY": " own\n", "ELYTRON_MODEL_KEY": ""}, "own"),
        ("openai:m@http://elsewhere/v1", {"OPENAI_API_KEY": "own"}, ""),
        ("openai:m@http://elsewhere/v1", {"ELYTRON_MODEL_KEY": "ours"}, "ours"),
        ("chat:m@http://host/v1", {"OPENAI_API_KEY": "own"}, ""),
        ("ollama:m", {}, ""),
    ],
)
def test_our_key_variable_takes_precedence_and_a_vendors_key_is_only_for_its_server(
    text: str, environment: dict[str, str], key: str
) -> None:
    assert key_of(address_of(text), environment) == key


def test_an_invalid_key_is_reported_by_variable_and_not_echoed() -> None:
    with pytest.raises(InvalidInput, match="ELYTRON_MODEL_KEY") as caught:
        open_model("openai:m", environment={"ELYTRON_MODEL_KEY": f"two {CANARY}"})
    assert CANARY not in str(caught.value)


def test_a_model_is_opened_by_address() -> None:
    model = open_model("ollama:llama3.2", environment={}, context_tokens=32_768)
    assert (model.info.name, model.info.context_tokens) == ("ollama:llama3.2", 32_768)


@pytest.mark.anyio
@pytest.mark.parametrize("name", [name for name, vendor in VENDORS.items() if vendor.needs_key])
async def test_a_model_without_its_key_names_the_variable_and_sends_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object, **__: object) -> None:
        pytest.fail("a connection was opened")

    monkeypatch.setattr("socket.socket.connect", connect)
    monkeypatch.setattr("socket.getaddrinfo", connect)
    variable = VENDORS[name].key_variable
    with pytest.raises(InvalidInput, match=f"{variable} is not set"):
        require_key(address_of(f"{name}:m"), {"ELYTRON_MODEL_KEY": ""})
    client = open_model(f"{name}:m", environment={})
    request = ModelRequest(messages=(InputMessage(role=ChatRole.USER, parts=(TextPart(text="Hi."),)),))
    with pytest.raises(ModelRefused, match=f"has no key: set {variable} or ELYTRON_MODEL_KEY"):
        await ask(client, request)
    assert await client.count(request) is None


def test_a_refused_key_names_the_variables_used_for_this_server() -> None:
    failed = ReplyFailed(reason=FailureReason.UNAUTHORIZED, status=401)
    at_vendor = error_of(failed, name="openai:m").message
    elsewhere = error_of(failed, name="openai:m@http://elsewhere/v1").message
    assert at_vendor.endswith("check OPENAI_API_KEY or ELYTRON_MODEL_KEY (401)")
    assert elsewhere.endswith("check ELYTRON_MODEL_KEY (401)")
