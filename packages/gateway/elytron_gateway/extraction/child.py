"""The process that reads one file: bytes on stdin, chunks as JSON lines on stdout, within limits that the system keeps.

python -m elytron_gateway.extraction.child MEDIA_TYPE CHUNK_CHARS MAX_CHUNKS MAX_CHARS CPU_S MEMORY_BYTES
"""

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from elytron_gateway.extraction.file_type import text_of

if TYPE_CHECKING:
    from elytron_core.strict_json import Json

HEADING_CHARS = 200
SPLIT_CHARS = 200_000
"""So much text is split at once: what the splitter takes for one text grows faster than the text."""


def main(arguments: list[str]) -> int:
    """Read the file on stdin within its limits and print its chunks; return the exit code that `print_chunks` gives."""
    media_type, chunk_chars, max_chunks, max_chars, cpu_s, memory = arguments[0], *map(int, arguments[1:6])
    data = sys.stdin.buffer.read()
    _confine_process(cpu_s, memory)
    return print_chunks(data, media_type, chunk_chars=chunk_chars, max_chunks=max_chunks, max_chars=max_chars)


def print_chunks(data: bytes, media_type: str, /, *, chunk_chars: int, max_chunks: int, max_chars: int) -> int:
    """Print the chunks of a file; return 0, 3 where it cannot be read, 4 where it holds too much text."""
    try:
        left = max_chunks
        spent = 0
        for page, text in _file_texts(data, media_type):
            spent += len(text)
            if spent > max_chars:
                return 4
            for chunk, heading in _text_chunks(text, chunk_chars):
                left -= 1
                if left < 0:
                    return 4
                line = {"text": chunk, "page": page, "heading": heading}
                sys.stdout.write(json.dumps({name: value for name, value in line.items() if value is not None}) + "\n")
    except Exception:  # noqa: BLE001 - parsers of strangers' files raise anything; all of it means one thing
        return 3
    sys.stdout.flush()
    return 0


def _confine_process(cpu_s: int, memory: int) -> None:
    """Let the system end this process where it takes more time or memory, and let it write no file."""
    try:
        import resource
    except ImportError:  # a system without these limits; the parent's clock still holds
        return
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _file_texts(data: bytes, media_type: str) -> Iterator[tuple[int | None, str]]:
    """Yield the file's texts, each with its page if it has pages."""
    if media_type == "application/pdf":
        yield from _pdf_texts(data)
        return
    if not media_type.startswith(("text/", "application/json")):
        yield None, _as_markdown(data, media_type)
        return
    text = text_of(data)
    if text is None:
        raise ValueError("no text")
    match media_type:
        case "application/json":
            yield None, "\n".join(_flatten_json(json.loads(text), ""))
        case "text/plain" | "text/markdown":
            yield None, text
        case _:
            yield None, _as_markdown(text.encode(), media_type)


def _pdf_texts(data: bytes) -> Iterator[tuple[int | None, str]]:
    from pypdf import PdfReader

    for number, page in enumerate(PdfReader(io.BytesIO(data)).pages, 1):
        yield number, page.extract_text()


def _as_markdown(data: bytes, media_type: str) -> str:
    """Return the text as Markdown, without the block that describes the file itself."""
    import kreuzberg

    config = kreuzberg.ExtractionConfig(output_format="markdown", use_cache=False)
    text = kreuzberg.extract_bytes_sync(data, media_type, config).content
    if text.startswith("---\n"):
        _, _, rest = text[4:].partition("\n## ")
        title, _, body = rest.partition("\n")
        text = f"# {title.removeprefix('title: ')}\n{body}" if title.startswith("title: ") else text
    return text


def _flatten_json(value: "Json", path: str) -> Iterator[str]:
    """Yield a line per leaf of a JSON value: its path and its value."""
    match value:
        case dict():
            for name, item in value.items():
                yield from _flatten_json(item, f"{path}.{name}" if path else name)
        case list():
            for number, item in enumerate(value):
                yield from _flatten_json(item, f"{path}[{number}]")
        case _:
            yield f"{path}: {value}" if path else str(value)


def _text_chunks(text: str, size: int) -> Iterator[tuple[str, str | None]]:
    """Yield pieces of at most `size` characters, each with the heading above it."""
    headings = [
        (start, line.lstrip("#").strip()[:HEADING_CHARS])
        for start, line in _text_lines(text)
        if line.startswith("#") and line.lstrip("#").startswith(" ")
    ]
    place = -1
    split = _chunk_splitter(size)
    for begin, part in _text_parts(text, SPLIT_CHARS):
        for start, chunk in split(part):
            while place + 1 < len(headings) and headings[place + 1][0] <= begin + start:
                place += 1
            if chunk.strip():
                yield chunk, headings[place][1] if place >= 0 else None


def _chunk_splitter(size: int) -> Callable[[str], Iterable[tuple[int, str]]]:
    """Return what splits a text into pieces of at most `size` characters, by headings if the library is there."""
    try:
        from semantic_text_splitter import MarkdownSplitter
    except ImportError:  # a text needs no extra
        return lambda text: _text_parts(text, size)
    return MarkdownSplitter(size).chunk_indices


def _text_parts(text: str, size: int) -> Iterator[tuple[int, str]]:
    """Yield a text in parts of at most `size` characters, cut between paragraphs, or lines, if it has some."""
    start = 0
    while len(text) - start > size:
        last = start + size
        ends = (text.rfind(between, start + size // 2, last) + len(between) for between in ("\n\n", "\n", " "))
        end = next((found for found in ends if found > start + size // 2), last)
        yield start, text[start:end]
        start = end
    yield start, text[start:]


def _text_lines(text: str) -> Iterator[tuple[int, str]]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, line
        start += len(line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
