"""A model with scripted answers, for experiments and tests."""

from collections.abc import Callable, Sequence
from typing import Annotated, Final, Literal

from pydantic import Field

from elytron_core import limits
from elytron_core.errors import ModelRefused
from elytron_core.model import Value
from elytron_core.ports.models import LanguageModel, PromptMessage, TextCompletion
from elytron_core.strict_json import canonical_bytes, sha256_digest

CASSETTE_CALLS: Final = 10_000


Answer = str | TextCompletion | Exception
Script = Sequence[Answer] | Callable[[Sequence[PromptMessage]], Answer]


class ScriptedModel:
    """Answers from a list, one answer per call, or from a function of the prompt; an exception is raised.

    `prompts` records its inputs. Raises ModelRefused if the list is used up.
    """

    def __init__(self, script: Script, /, *, name: str = "scripted") -> None:
        self._script = script
        self._name = name
        self.prompts: list[tuple[PromptMessage, ...]] = []

    @property
    def name(self) -> str:
        return self._name

    async def complete(
        self,
        prompt: Sequence[PromptMessage],
        /,
        *,
        schema: str | None = None,  # noqa: ARG002  (the port's signature)
        max_tokens: int,  # noqa: ARG002  (the port's signature)
    ) -> TextCompletion:
        """Return the next answer; one given as text costs a token per four characters."""
        self.prompts.append(tuple(prompt))
        scripted_answer = self._next(prompt)
        if isinstance(scripted_answer, Exception):
            raise scripted_answer
        if isinstance(scripted_answer, TextCompletion):
            return scripted_answer
        prompt_chars = sum(len(message.text) for message in prompt)
        return TextCompletion(
            scripted_answer, self._name, prompt_tokens=prompt_chars // 4, completion_tokens=len(scripted_answer) // 4
        )

    def _next(self, prompt: Sequence[PromptMessage]) -> Answer:
        if callable(self._script):
            return self._script(prompt)
        if len(self.prompts) > len(self._script):
            raise ModelRefused(f"{self._name!r} has no answers left: its script has {len(self._script)}")
        return self._script[len(self.prompts) - 1]


FORMAT = "elytron.cassette"


class RecordedCall(Value):
    """One call's answer, under the digest of its input. `about` is for people who read the file."""

    key: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    about: Annotated[str, Field(max_length=limits.REASON_CHARS)] = ""
    text: Annotated[str, Field(max_length=limits.MODEL_ANSWER_CHARS)]
    model: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: int = 0
    is_cut: bool = False

    @property
    def completion(self) -> TextCompletion:
        return TextCompletion(
            self.text, self.model, self.prompt_tokens, self.completion_tokens, self.cost, is_cut=self.is_cut
        )


class ModelCassette(Value):
    """The recorded calls of one model."""

    format: Literal["elytron.cassette"] = FORMAT
    version: Literal[1] = 1
    model: Annotated[str, Field(min_length=1, max_length=limits.NAME_CHARS)]
    calls: Annotated[tuple[RecordedCall, ...], Field(max_length=CASSETTE_CALLS)] = ()


def call_key(model: str, prompt: Sequence[PromptMessage], schema: str | None, /) -> str:
    """Return the digest under which a call is recorded: of the model's name, the prompt and the schema."""
    messages = [[one.speaker.value, one.text] for one in prompt]
    return sha256_digest(canonical_bytes({"model": model, "prompt": messages, "schema": schema}))


class RecordedModel:
    """Answers from a cassette and calls no model."""

    def __init__(self, cassette: ModelCassette, /) -> None:
        self._name = cassette.model
        self._calls = {call.key: call for call in cassette.calls}

    @property
    def name(self) -> str:
        return self._name

    async def complete(
        self,
        prompt: Sequence[PromptMessage],
        /,
        *,
        schema: str | None = None,
        max_tokens: int,  # noqa: ARG002  (the port's signature)
    ) -> TextCompletion:
        """Return the recorded answer. Raises ModelRefused for an unrecorded call."""
        key = call_key(self._name, prompt, schema)
        call = self._calls.get(key)
        if call is None:
            raise ModelRefused(f"the cassette of {self._name!r} has no call {key[:16]}: record it again")
        return call.completion


class RecordingModel:
    """Calls another model and records its answers; recorded calls are not repeated."""

    def __init__(self, model: LanguageModel, /, *, cassette: ModelCassette | None = None) -> None:
        self._model = model
        calls = cassette.calls if cassette is not None and cassette.model == model.name else ()
        self._calls = {call.key: call for call in calls}
        self._used_calls: dict[str, RecordedCall] = {}

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def cassette(self) -> ModelCassette:
        """Return the calls that were made, in order."""
        return ModelCassette(model=self.name, calls=tuple(self._used_calls.values()))

    async def complete(
        self, prompt: Sequence[PromptMessage], /, *, schema: str | None = None, max_tokens: int
    ) -> TextCompletion:
        """Return the recorded answer, else the model's. Raises what the model raises."""
        key = call_key(self.name, prompt, schema)
        call = self._calls.get(key)
        if call is None:
            completion = await self._model.complete(prompt, schema=schema, max_tokens=max_tokens)
            call = RecordedCall(
                key=key,
                about=" ".join(prompt[-1].text.split())[-limits.REASON_CHARS :] if prompt else "",
                text=completion.text,
                model=completion.model,
                prompt_tokens=completion.prompt_tokens,
                completion_tokens=completion.completion_tokens,
                cost=completion.cost,
                is_cut=completion.is_cut,
            )
            self._calls[key] = call
        self._used_calls[key] = call
        return call.completion
