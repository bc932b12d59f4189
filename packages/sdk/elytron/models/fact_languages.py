"""Files of languages in which facts are read without a model, beside those that ship."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from elytron_core import limits
from elytron_core.errors import InvalidInput, UnreadableFile
from elytron_core.policy.extraction.fact_language import parse_language
from elytron_core.policy.extraction.rule_facts import FactReader


def fact_readers(paths: Sequence[str | PathLike[str]], /) -> tuple[FactReader, ...]:
    """Return a reader for each language file. Raises UnreadableFile, and InvalidInput for too many."""
    if len(paths) > limits.FACT_LANGUAGES:
        raise InvalidInput(field="fact_languages", problem=f"names more than {limits.FACT_LANGUAGES} files")
    return tuple(FactReader(parse_language(_read_table(Path(path)), name=Path(path).name)) for path in paths)


def _read_table(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(limits.FACT_LANGUAGE_BYTES + 1)
    except OSError:
        raise UnreadableFile(name=path.name, problem="cannot be read: is it there?") from None
