"""Metadata that decides who sees a turn must be true or false; any other form would have no effect."""

import pytest
from pydantic import ValidationError

from elytron_core.contracts.transcript import TurnDraft
from elytron_core.evidence import FLAGS
from elytron_core.planes.transcript import Message

MESSAGES = (Message(text="The safe is behind the clock."),)


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("value", ["true", "false", "yes", 1, 0, 1.0])
def test_a_flag_as_text_or_number_is_refused(flag: str, value: object) -> None:
    with pytest.raises(ValidationError, match="no effect"):
        TurnDraft.model_validate({"messages": MESSAGES, "metadata": {flag: value}})


@pytest.mark.parametrize("name", ["Private", "STORE"])
def test_a_flag_under_another_spelling_is_refused(name: str) -> None:
    with pytest.raises(ValidationError, match="no effect"):
        TurnDraft.model_validate({"messages": MESSAGES, "metadata": {name: True}})


@pytest.mark.parametrize("flag", FLAGS)
def test_true_and_false_are_taken(flag: str) -> None:
    for value in (True, False):
        metadata = {flag: value, "topic": "private matters"}
        assert TurnDraft.model_validate({"messages": MESSAGES, "metadata": metadata}).metadata == metadata
