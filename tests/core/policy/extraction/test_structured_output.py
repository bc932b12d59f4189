"""The format of a model's answer: the schema sent to it, and the JSON found in its text."""

import json

import pytest

from elytron_core.policy.extraction.model_facts import ExtractedItems, bare_json, looks_cut, schema_of


def test_a_schema_requires_every_field_and_no_other() -> None:
    schema = json.loads(schema_of(ExtractedItems))
    found = schema["$defs"]["ExtractedItem"]
    assert found["required"] == list(found["properties"])
    assert found["additionalProperties"] is False
    assert "title" not in json.dumps(schema["properties"])


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ('<think>{"a": 2}</think>\n{"a": 1}', '{"a": 1}'),
        ('Sure!\n```json\n{"a": 1}\n```\nDone.', '{"a": 1}'),
        ("nothing", "nothing"),
    ],
)
def test_an_answer_is_read_without_surrounding_text(text: str, bare: str) -> None:
    assert bare_json(text) == bare


def test_a_truncated_answer_is_recognised() -> None:
    assert looks_cut('{"items": [{"topic": "resi')
    assert not looks_cut('{"items": []}')
    assert not looks_cut("I cannot answer that")
