"""A model that says what it was given to say: for trying things out, and for tests."""

from collections.abc import Callable, Sequence

from elytron_core.errors import ModelRefused
from elytron_core.ports.models import Completion, Said

Answer = str | Completion | Exception
Script = Sequence[Answer] | Callable[[Sequence[Said]], Answer]


class ScriptedModel:
    """Answers from a list, one answer per call, or from a function of the prompt; an exception is raised.

    `prompts` keeps what it was asked. Raises ModelRefused where the list is used up.
    """

    def __init__(self, script: Script, /, *, name: str = "scripted") -> None:
        self._script = script
        self._name = name
        self.prompts: list[tuple[Said, ...]] = []

    @property
    def name(self) -> str:
        return self._name

    async def complete(
        self,
        prompt: Sequence[Said],
        /,
        *,
        schema: str | None = None,  # noqa: ARG002  (the port's signature)
        max_tokens: int,  # noqa: ARG002  (the port's signature)
    ) -> Completion:
        """Return the next answer; one given as text costs a token for every four characters."""
        self.prompts.append(tuple(prompt))
        answer = self._next(prompt)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, Completion):
            return answer
        asked = sum(len(said.text) for said in prompt)
        return Completion(answer, self._name, prompt_tokens=asked // 4, completion_tokens=len(answer) // 4)

    def _next(self, prompt: Sequence[Said]) -> Answer:
        if callable(self._script):
            return self._script(prompt)
        if len(self.prompts) > len(self._script):
            raise ModelRefused(f"{self._name!r} has no answer left: it was given {len(self._script)}")
        return self._script[len(self.prompts) - 1]
