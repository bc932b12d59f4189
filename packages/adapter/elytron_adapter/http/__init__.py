"""Parts of surfaces over HTTP: bodies within bounds, headers, handlers, answers. Starlette is imported here."""
