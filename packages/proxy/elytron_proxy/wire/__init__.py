"""The wire between a client and a model server: headers, connections, bytes, and the copy that memory reads."""
