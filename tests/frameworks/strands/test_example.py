"""The example prints what was remembered."""

from tests.frameworks.example_runs import example_output


def test_what_the_manager_adds_is_found_by_others() -> None:
    assert example_output("strands_memory") == "Ada's boat is called Petrel.\n" * 2
