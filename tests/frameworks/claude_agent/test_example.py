"""The example of the Claude Agent SDK lists a session and recalls what was said in it."""

from tests.frameworks.example_runs import example_output


def test_a_session_is_listed_and_recalled() -> None:
    assert example_output("claude_agent_sessions").splitlines() == ["Name the boat Petrel.", "Name the boat Petrel."]
