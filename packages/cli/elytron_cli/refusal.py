"""Refusals by the dispatcher or by a person, on their way to the exit code."""

from elytron_adapter.envelope import RejectedAnswer


class QuestionDeclined(Exception):
    """A question at the terminal was answered with no."""

    key = "declined"


class OperationRefused(Exception):
    """An operation was rejected."""

    def __init__(self, rejected: RejectedAnswer, /) -> None:
        super().__init__(rejected.reason)
        self.rejected = rejected
