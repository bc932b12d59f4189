"""Text extraction from untrusted files, with locations or a reason; never harm."""

import asyncio
import codecs
import io
import json
import sys
import zipfile

import pytest

from elytron_core.errors import MissingExtra, UnsupportedMedia
from elytron_gateway.extraction import file_text
from elytron_gateway.extraction.child_process import (
    RESOURCE_TEXT_CHARS,
    FileChunk,
    FileExtraction,
    UnreadableUpload,
    read_chunks,
)
from elytron_gateway.extraction.file_text import CHARSETS, DOCX, media_type

pytestmark = pytest.mark.anyio

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def docx(text: str) -> bytes:
    """Return a minimal Word document with `text` under a heading."""
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    relation = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    style = '<w:pPr><w:pStyle w:val="Heading1"/></w:pPr>'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="rels"'
        ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r"'
        f' Type="{relation}" Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{_W}"><w:body><w:p>{style}<w:r><w:t>Terms</w:t></w:r></w:p>'
        f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body></w:document>",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return packed.getvalue()


def pdf(*pages: str) -> bytes:
    """Return a PDF with one line of text per page."""
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b""]
    kids: list[str] = []
    for text in pages:
        stream = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode()
        objects.append(b"<</Length %d>>stream\n%b\nendstream" % (len(stream), stream))
        content = len(objects)
        font = "<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
        page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents {content} 0 R/Resources{font}>>"
        objects.append(page.encode())
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<</Type/Pages/Count {len(pages)}/Kids[{' '.join(kids)}]>>".encode()
    out = bytearray(b"%PDF-1.4\n")
    places: list[int] = []
    for number, body in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    out += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(out)


@pytest.mark.parametrize(
    ("data", "name", "declared", "found"),
    [
        (b"# Hi", "a.md", "", "text/markdown"),
        (b"plain", "a", "", "text/plain"),
        (b"a,b", "x", "text/csv; charset=utf-8", "text/csv"),
        (b"<p>hi</p>", "a.HTML", "text/plain", "text/html"),
        (b"{}", "a.json", "", "application/json"),
        (b"%PDF-1.4 nothing but text", "a.txt", "text/plain", "application/pdf"),
        (docx("x"), "a.docx", "", DOCX),
    ],
)
def test_the_bytes_determine_the_type_and_the_name_only_the_kind_of_text(
    data: bytes, name: str, declared: str, found: str
) -> None:
    assert media_type(data, name=name, declared=declared) == found


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n" + b"\0" * 40, b"PK\x03\x04" + b"\0" * 40, b"\x7fELF" + b"\0" * 40, b"\0\xff\0\xff"]
)
def test_other_file_kinds_are_rejected_under_any_name(data: bytes) -> None:
    with pytest.raises(UnsupportedMedia):
        media_type(data, name="a.md", declared="text/markdown")


@pytest.mark.parametrize("declared", ["image/svg+xml", "Audio/wav; x=y", "video/mp4", "font/ttf"])
def test_a_text_declared_as_a_picture_or_sound_is_rejected(declared: str) -> None:
    with pytest.raises(UnsupportedMedia):
        media_type(b"<svg><script>x()</script></svg>", name="a.svg", declared=declared)


@pytest.mark.parametrize(
    "data",
    [
        b"<svg><script>x()</script></svg>",
        b"\xef\xbb\xbf\n<SVG xmlns='http://www.w3.org/2000/svg'/>",
        b"<?xml version='1.0'?>\n<!-- <html> -->\n<!DOCTYPE svg [<!ENTITY a 'b'>]>\n<s:svg/>",
    ],
)
@pytest.mark.parametrize("name", ["", "a.svg", "a.txt", "a.html"])
def test_an_svg_is_rejected_under_any_name(data: bytes, name: str) -> None:
    with pytest.raises(UnsupportedMedia):
        media_type(data, name=name, declared="text/plain")


@pytest.mark.parametrize(
    "data",
    [
        b"<html><svg/></html>",
        b"An <svg> is a picture.",
        b"<svgs>",
        b"<!-- never closed <svg>",
        b"<!---->" * 9_000,
        b"<!DOCTYPE [" * 6_000,
    ],
)
def test_a_text_that_contains_an_svg_is_a_text(data: bytes) -> None:
    assert media_type(data) == "text/plain"


CHINESE = "灯塔管理员叫老王。码头在东边，渡轮九点开。"
WESTERN = "Der Müller heißt Jörg Größe, naïve café."


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "gb18030", "gbk"])
@pytest.mark.parametrize("kind", ["text/plain", "text/csv", "text/html"])
def test_a_chinese_text_is_read_in_its_common_encodings(
    encoding: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = CHINESE.encode(encoding)
    assert media_type(data, declared=kind) == kind
    (chunk,) = told(data, kind, capsys)
    assert CHINESE in chunk.text
    assert "\ufeff" not in chunk.text


def test_a_page_is_read_in_its_declared_encoding(capsys: pytest.CaptureFixture[str]) -> None:
    for encoding, text in (("iso-8859-1", WESTERN), ("big5", "燈塔管理員"), ("shift_jis", "灯台の管理人")):
        page = f'<html><head><meta charset="{encoding}"></head><body><p>{text}</p></body></html>'.encode(encoding)
        assert media_type(page, name="a.html") == "text/html"
        (chunk,) = told(page, "text/html", capsys)
        assert text in chunk.text


@pytest.mark.parametrize(
    "data",
    [
        "Zażółć gęślą jaźń, ponieważ każdy może.".encode("iso8859-2"),
        "Příliš žluťoučký kůň úpěl ďábelské ódy.".encode("iso8859-2"),
        "Αυτό είναι ένα πλοίο.".encode("iso8859-7"),
        "등대 관리인은 김씨입니다.".encode("euc-kr"),
        "Смотритель маяка живёт на севере.".encode("cp1251"),
        "灯台の管理人は田中さんです。".encode("shift_jis"),
        b'<meta charset="nonsense">\xff\xfa',
        b'<meta charset="hex">\xff\xfa',
        b'<meta charset="punycode">\xff\xfa',
        b'<meta charset="idna">\xff\xfa',
        b'<meta charset="unicode_escape">\xff\xfa',
        b"\xff\xfe\x00",
        b"\xef\xbb\xbf\xff",
    ],
)
def test_ambiguous_encodings_are_not_guessed(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnsupportedMedia):
        media_type(data, name="a.txt")
    assert file_text.print_chunks(data, "text/plain", chunk_chars=100, max_chunks=3, max_chars=100) == 3
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "text",
    [
        WESTERN,
        "Die Größe der Straße",
        "¿Dónde está el niño? ¡Mañana!",
        "Perché è così?",
        "Rødgrød med fløde på øen",
        "Tämä on hyvä päivä",
        "L’été, le garçon naît",
    ],
)
def test_a_western_single_byte_text_is_read(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    data = text.encode("cp1252")
    assert media_type(data, name="a.txt") == "text/plain"
    assert file_text.print_chunks(data, "text/plain", chunk_chars=400, max_chunks=3, max_chars=400) == 0
    assert json.loads(capsys.readouterr().out)["text"] == text


def test_a_text_with_an_unknown_encoding_is_rejected_with_that_reason() -> None:
    with pytest.raises(UnsupportedMedia, match="send it as UTF-8"):
        media_type("Смотритель маяка живёт на севере.".encode("cp1251"), name="a.txt", declared="text/plain")


@pytest.mark.parametrize("media", ["text/plain", "text/markdown", "application/json"])
async def test_texts_need_no_extra(media: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(_: str) -> None: ...

    monkeypatch.setattr("importlib.util.find_spec", find_nothing)
    assert (await read_chunks(b'"Thirty days."', media))[0].text.strip('"') == "Thirty days."
    with pytest.raises(MissingExtra):
        await read_chunks(b"<p>Thirty days.</p>", "text/html")


def test_a_text_is_split_without_the_optional_library(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "semantic_text_splitter", None)
    text = "# Terms\n\n" + "\n\n".join(f"Paragraph {number} of the terms." for number in range(20))
    assert file_text.print_chunks(text.encode(), "text/markdown", chunk_chars=100, max_chunks=40, max_chars=9_000) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "".join(line["text"] for line in lines) == text
    assert {line["heading"] for line in lines} == {"Terms"}
    assert max(len(line["text"]) for line in lines) <= 100


def test_an_archive_is_never_read_as_text() -> None:
    with pytest.raises(UnsupportedMedia):
        media_type(b"PK\x03\x04 all letters", name="a.txt")


def test_an_svg_in_another_encoding_is_rejected_too() -> None:
    with pytest.raises(UnsupportedMedia):
        media_type("<svg><script/></svg>".encode("utf-16"), name="a.txt")


@pytest.mark.parametrize("between", ["\n\n", "\n", " ", ""])
def test_a_long_text_is_split_incrementally_and_completely(
    between: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(file_text, "SPLIT_CHARS", 100)
    words = [f"word{number:03}" for number in range(100)]
    chunks = told(f"# Top\n{between.join(words)}".encode(), "text/plain", capsys, chunk_chars=40, max_chunks=100)
    told_text = "".join(chunk.text for chunk in chunks)
    assert all(word in told_text for word in words) or not between
    assert sum(chunk.text.count("word") for chunk in chunks) >= (100 if between else 90)
    assert {chunk.heading for chunk in chunks} == {"Top"}


HTML = b"<html><head><title>T</title></head><body><script>x()</script><h1>Big</h1><p>Hello</p></body></html>"


def told(data: bytes, kind: str, capsys: pytest.CaptureFixture[str], **bounds: int) -> list[FileChunk]:
    """Return the chunks of a readable file."""
    defaults = {"chunk_chars": 1_000, "max_chunks": 10, "max_chars": 10_000}
    assert file_text.print_chunks(data, kind, **(defaults | bounds)) == 0
    return [FileChunk(**json.loads(line)) for line in capsys.readouterr().out.splitlines()]


def test_chunks_state_their_location(capsys: pytest.CaptureFixture[str]) -> None:
    markdown = b"# Contract\n\nPayment in thirty days.\n\n## Delivery\n\nOn Fridays, from the harbour."
    chunks = told(markdown, "text/markdown", capsys, chunk_chars=50)
    assert [(one.heading, one.text.splitlines()[0]) for one in chunks] == [
        ("Contract", "# Contract"),
        ("Delivery", "## Delivery"),
    ]
    assert [(one.page, one.text) for one in told(pdf("first page", "second page"), "application/pdf", capsys)] == [
        (1, "first page"),
        (2, "second page"),
    ]
    (word,) = told(docx("Payment in thirty days."), DOCX, capsys)
    assert (word.heading, "Payment in thirty days." in word.text) == ("Terms", True)
    (page,) = told(HTML, "text/html", capsys)
    assert (page.heading, "x()" in page.text, "# Big" in page.text) == ("T", False, True)
    (data,) = told(b'{"a": {"b": [1, "two"]}, "c": null}', "application/json", capsys)
    assert data.text.splitlines() == ["a.b[0]: 1", "a.b[1]: two", "c: None"]
    assert told(b"", "text/plain", capsys) == []


def test_invalid_and_oversized_files_are_reported_by_code(capsys: pytest.CaptureFixture[str]) -> None:
    bounds = {"chunk_chars": 10, "max_chunks": 3, "max_chars": 100}
    assert file_text.print_chunks(b"%PDF-1.4", "application/pdf", **bounds) == 3
    assert file_text.print_chunks(b"{", "application/json", **bounds) == 3
    assert file_text.print_chunks(b"word " * 100, "text/plain", **bounds) == 4
    assert file_text.print_chunks(b"word " * 18, "text/plain", **bounds) == 4


async def test_a_file_is_read_in_a_separate_process() -> None:
    assert await read_chunks(b"Payment in thirty days.", "text/plain") == (FileChunk("Payment in thirty days."),)
    for data, kind, problem in (
        (b"", "text/plain", "contains no text"),
        (b"%PDF-1.4", "application/pdf", "could not be read"),
        (b"x" * (RESOURCE_TEXT_CHARS + 1), "text/plain", "more text"),
    ):
        with pytest.raises(UnreadableUpload, match=problem):
            await read_chunks(data, kind)


@pytest.mark.parametrize("encoding", sorted(set(CHARSETS.values())))
def test_every_declarable_charset_is_known_and_decodes_in_linear_time(encoding: str) -> None:
    assert codecs.lookup(encoding).name not in {"punycode", "idna", "unicode_escape", "utf-7"}
    name = next(name for name, known in CHARSETS.items() if known == encoding)
    assert media_type(f'<meta charset="{name}">'.encode() + b"a" * 100, name="a.html") == "text/html"


def test_a_long_file_is_recognised_by_a_beginning_that_splits_a_character() -> None:
    assert media_type(b"a" + "灯".encode() * 100_000, name="a.txt") == "text/plain"
    with pytest.raises(UnsupportedMedia):
        media_type(b"\xff" * 100_000, name="a.txt")


async def test_a_limited_number_of_files_is_read_at_once_and_the_others_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    extraction = FileExtraction(most=1)
    first, second = await asyncio.gather(
        extraction.chunks(b"Thirty days.", "text/plain"), extraction.chunks(b"Forty days.", "text/plain")
    )
    assert (first[0].text, second[0].text) == ("Thirty days.", "Forty days.")
    monkeypatch.setattr("elytron_gateway.extraction.child_process.EXTRACTION_WAIT_S", 0.01)
    with pytest.raises(UnreadableUpload, match="waited"):
        await FileExtraction(most=0).chunks(b"Thirty days.", "text/plain")


async def test_an_archive_bomb_stops_at_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_gateway.extraction.child_process.EXTRACTION_MEMORY_BYTES", 300 * 1024 * 1024)
    monkeypatch.setattr("elytron_gateway.extraction.child_process.EXTRACTION_CPU_S", 2)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        file.writestr("[Content_Types].xml", "<Types/>")
        file.writestr("word/document.xml", b"<w>" + b"0" * (320 * 1024 * 1024))
    with pytest.raises(UnreadableUpload):
        await read_chunks(packed.getvalue(), DOCX)


async def test_a_slow_reader_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_gateway.extraction.child_process.EXTRACTION_WAIT_S", 0.001)
    with pytest.raises(UnreadableUpload, match="longer"):
        await read_chunks(b"x", "text/plain")


def test_the_child_process_gets_its_limits_as_arguments(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stdin:
        buffer = io.BytesIO(b"Hello.")

    monkeypatch.setattr(sys, "stdin", Stdin)
    asked: list[tuple[int, int]] = []

    def confine(cpu_s: int, memory: int) -> None:
        asked.append((cpu_s, memory))

    monkeypatch.setattr(file_text, "_confine_process", confine)
    assert file_text.main(["text/plain", "100", "5", "1000", "7", "9"]) == 0
    assert (asked, capsys.readouterr().out) == ([(7, 9)], '{"text": "Hello."}\n')
