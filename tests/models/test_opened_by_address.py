"""A memory opens the language model of an address, and closes it with itself."""

import pytest
from tests.models.fake_server import LINES, Sent, serving
from tests.models.streams import ollama

import elytron
from elytron_core.errors import InvalidInput
from elytron_core.ports.models import PromptMessage, PromptRole

pytestmark = pytest.mark.anyio


async def test_a_language_model_is_named_by_its_address() -> None:
    async with serving(Sent((ollama(("Porto.",)),), media_type=LINES)) as server:
        async with elytron.open("memory:", space="ada", language_model=f"ollama:m@{server.url}") as memory:
            model = memory.context.models.language
            assert model is not None
            assert model.name == f"ollama:m@{server.url}"
            said = await model.complete((PromptMessage(speaker=PromptRole.USER, text="Where?"),), max_tokens=9)
            assert said.text == "Porto."
        assert [asked.path for asked in server.asked] == ["/api/chat"]


async def test_an_invalid_address_error_shows_the_format() -> None:
    with pytest.raises(InvalidInput, match=r"dialect:name\[@url\]"):
        elytron.open("memory:", language_model="a-model")
