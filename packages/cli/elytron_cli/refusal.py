"""Refusals by the dispatcher or by a person, on their way to the exit code."""

from elytron_adapter.envelope import Rejected


class Declined(Exception):
    """A question at the terminal was answered with no."""

    key = "declined"


class Refused(Exception):
    """An operation was rejected."""

    def __init__(self, rejected: Rejected, /) -> None:
        super().__init__(rejected.reason)
        self.rejected = rejected
