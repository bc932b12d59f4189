"""The example of Pydantic AI prints the remembered answer and what is stored."""

from tests.frameworks.example_runs import example_output


def test_an_agent_remembers_and_its_conversation_is_stored() -> None:
    assert example_output("pydantic_ai_memory") == "Petrel. 2 messages\n"
