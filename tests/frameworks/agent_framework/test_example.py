"""The example prints what was remembered."""

from tests.frameworks.example_runs import example_output


def test_a_second_session_knows_what_was_said_in_the_first() -> None:
    assert example_output("agent_framework_memory") == "Petrel.\nPetrel.\n"
