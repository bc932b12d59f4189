"""Regular expressions that are compiled when they are first used: most processes never need most of them."""

import re
from functools import cached_property


class Pattern:
    """The pattern of `expression`."""

    def __init__(self, expression: str, flags: re.RegexFlag = re.NOFLAG, /) -> None:
        self._expression = expression
        self._flags = flags

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern itself."""
        return re.compile(self._expression, self._flags)
