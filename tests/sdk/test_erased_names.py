"""Names of speakers and conversations go with the last message that they belong to, from every byte of a store."""

import asyncio
import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.sdk.kill_points import ADA

import elytron
from benchmarks.rigs.live_words import live_bytes
from elytron.indexing.checkpoints import CHECKPOINT
from elytron_core.errors import NotFound
from elytron_core.planes import transcript
from elytron_core.planes.space import COLLECTIONS
from elytron_core.ports.store import Store, scan_documents
