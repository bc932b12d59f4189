"""The example of the memory tool prints the answer and the file that the model wrote."""

from tests.frameworks.example_runs import example_output


def test_a_model_writes_a_file_that_stays_in_memory() -> None:
    assert example_output("anthropic_memory_tool").splitlines() == [
        "Noted.",
        "Here's the content of /memories/ada.md with line numbers:",
        "     1\tAda drinks green tea.",
    ]
