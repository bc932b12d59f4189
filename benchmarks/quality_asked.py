"""Which conversations a command asks: the made ones without more, and others by an option."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from benchmarks.quality_long import long_chats
from benchmarks.quality_sets import Told, locomo, made
from benchmarks.quality_unseen import unseen


def add_sets(parser: ArgumentParser, /) -> None:
    """Let `parser` take the options that choose the conversations."""
    asked = parser.add_mutually_exclusive_group()
    asked.add_argument("--data", type=Path, help="a file in LoCoMo's form, gz or not")
    asked.add_argument("--long", action="store_true", help="long conversations with an assistant")
    asked.add_argument("--unseen", action="store_true", help="conversations written before recall was asked about them")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="of these only the ones of such names")


def chosen(arguments: Namespace, /) -> list[Told]:
    """Return the conversations that the options choose."""
    if arguments.data is not None:
        sets = locomo(arguments.data)
    else:
        sets = long_chats() if arguments.long else unseen() if arguments.unseen else made()
    return [told for told in sets if arguments.only is None or told.name in arguments.only]
