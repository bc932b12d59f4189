"""What the dispatcher said, on its way to the exit code."""

from elytron_adapter.envelope import Rejected


class Refused(Exception):
    """An operation was rejected."""

    def __init__(self, rejected: Rejected, /) -> None:
        super().__init__(rejected.reason)
        self.rejected = rejected
