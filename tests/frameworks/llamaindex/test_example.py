"""The example prints what was remembered."""

from tests.frameworks.example_runs import example_output


def test_a_memory_block_shows_what_was_said_in_another_session() -> None:
    assert example_output("llamaindex_memory") == "True 1\n"
