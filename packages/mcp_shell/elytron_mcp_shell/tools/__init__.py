"""The tools that a host is shown: by lines, plain, of the reference server, and the sets of them."""
