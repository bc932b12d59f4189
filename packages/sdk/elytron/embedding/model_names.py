"""Embedders by what a setting says: the word `use`, the name of a kept model, a folder, or a server's URL."""

import re
from pathlib import Path
from typing import Final

from elytron.embedding.embedders import LocalEmbedder, OpenAIEmbedder
from elytron.embedding.model2vec import Model2VecEmbedder, is_model2vec
from elytron.embedding.model_files import model_folder
from elytron.embedding.use_encoder import WORD, UseEmbedder
from elytron_core import limits
from elytron_core.errors import InvalidInput
from elytron_core.ports.models import Embedder

_SERVER: Final = re.compile(r"(?P<base>https?://[^\s#]+)#(?P<model>[^\s#@]+)@(?P<dimensions>[1-9][0-9]{0,4})")


def embedder_of(text: str, /, *, key: str | None = None) -> Embedder:
    """Return the embedder that `text` names; `key` goes to a server.

    `use` is the encoder of the extra of that name, `minilm` a model on the shelf, a text with a slash a folder, whose
    files tell what it holds, `http://127.0.0.1:11434/v1#nomic-embed-text@768` a server's address, model and dimensions.
    Raises NotFound, UnreadableFile, InvalidInput, MissingExtra.
    """
    if text.startswith(("http://", "https://")):
        found = _SERVER.fullmatch(text)
        if found is None or len(text) > limits.NAME_CHARS * 10:
            raise InvalidInput(field="embedder", problem="is no server: write URL#MODEL@DIMENSIONS")
        dimensions = int(found["dimensions"])
        return OpenAIEmbedder(found["model"], dimensions=dimensions, base_url=found["base"], api_key=key)
    if text == WORD:
        return UseEmbedder()
    folder = Path(text) if re.search(r"[\\/]", text) else model_folder(text)
    return Model2VecEmbedder(folder) if is_model2vec(folder) else LocalEmbedder(folder)
