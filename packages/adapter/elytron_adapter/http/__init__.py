"""Building blocks of HTTP surfaces: bounded bodies, headers, handlers, answers. Only this package imports Starlette."""
