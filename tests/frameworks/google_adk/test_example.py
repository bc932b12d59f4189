"""The example of the ADK finds in one session what was said in another."""

from tests.frameworks.example_runs import example_output


def test_a_second_session_knows_what_was_said_in_the_first() -> None:
    assert example_output("google_adk_memory").splitlines() == ["Petrel.", "Petrel."]
