"""A griffe extension: examples in docstrings (`>>> ...` up to the next blank line) become fenced code blocks."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^|(?<=\n))((?:>>> .*)(?:\n(?!\s*\n).+)*)")


class DocstringExamples(griffe.Extension):
    """Fence the examples of every docstring before it is parsed."""

    def on_instance(self, *, obj: griffe.Object | griffe.Alias, **_: Any) -> None:
        if isinstance(obj, griffe.Object) and obj.docstring is not None and ">>> " in obj.docstring.value:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\1\n```", obj.docstring.value)
