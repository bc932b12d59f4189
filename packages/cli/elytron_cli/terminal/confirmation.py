"""Confirmation at a terminal, before what cannot be undone."""

import sys

import click

from elytron_cli.refusal import QuestionDeclined


def at_terminal() -> bool:
    """Return whether a person can be asked."""
    return sys.stdin.isatty()


def confirm_question(question: str, /, *, yes: bool) -> None:
    """Ask `question` at a terminal, unless `yes` was said. Raises Declined for a no, and for Ctrl-C."""
    if yes or not at_terminal():
        return
    try:
        answer = click.confirm(question, err=True)
    except click.exceptions.Abort:
        raise QuestionDeclined from None
    if not answer:
        raise QuestionDeclined
