"""A value as HTML for notebooks: its fields as a table, and the items of its first list as another. All is escaped."""

from collections.abc import Iterable, Sequence
from enum import Enum
from html import escape
from typing import TYPE_CHECKING, Final, cast

from pydantic import BaseModel

if TYPE_CHECKING:
    from elytron_core.model import Value

_ROWS: Final = 50
_CELL_CHARS: Final = 300
_COLUMNS: Final = 8
_STYLE: Final = "text-align: left; vertical-align: top; white-space: pre-wrap"


def report_html(value: "Value", /) -> str:
    """Return the table of what is set in `value`, bounded in rows, columns and characters."""
    fields = _shown_fields(value)
    items_name = next((name for name, content in fields.items() if _is_items(content)), None)
    plain_fields = {name: content for name, content in fields.items() if name != items_name}
    html_parts = [f"<strong>{escape(type(value).__name__)}</strong>"]
    if plain_fields:
        html_parts.append(_table_html((), [(name, _cell_text(content)) for name, content in plain_fields.items()]))
    if items_name is not None:
        html_parts.append(_items_html(items_name, value.__dict__[items_name]))
    return "".join(html_parts)


def _shown_fields(value: BaseModel) -> dict[str, object]:
    """Return the fields that differ from their defaults, without those that a representation leaves out."""
    return {
        name: getattr(value, name)
        for name, field in type(value).model_fields.items()
        if field.repr and getattr(value, name) != field.default and getattr(value, name) not in ((), {})
    }


def _is_items(content: object) -> bool:
    return isinstance(content, tuple) and all(isinstance(item, BaseModel) for item in cast("tuple[object]", content))


def _items_html(name: str, items: Sequence[BaseModel]) -> str:
    item_fields = [_shown_fields(item) for item in items[:_ROWS]]
    columns = tuple(dict.fromkeys(column for fields in item_fields for column in fields))[:_COLUMNS]
    rows = [[_cell_text(fields.get(column, "")) for column in columns] for fields in item_fields]
    more_html = f"<p>{len(items) - _ROWS} more</p>" if len(items) > _ROWS else ""
    return f"<p>{escape(name)}: {len(items)}</p>{_table_html(columns, rows)}{more_html}"


def _cell_text(content: object) -> str:
    text = str(content.value) if isinstance(content, Enum) else str(content)
    return text if len(text) <= _CELL_CHARS else f"{text[: _CELL_CHARS - 1]}…"


def _table_html(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head_html = "".join(f'<th style="{_STYLE}">{escape(column)}</th>' for column in columns)
    body_html = "".join(f"<tr>{''.join(map(_table_cell, row))}</tr>" for row in rows)
    return f"<table>{f'<tr>{head_html}</tr>' if head_html else ''}{body_html}</table>"


def _table_cell(text: str) -> str:
    return f'<td style="{_STYLE}">{escape(text)}</td>'
