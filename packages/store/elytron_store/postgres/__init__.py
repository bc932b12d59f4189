"""The Postgres engine. Its address is parsed without the driver; the rest loads only when a store is opened."""
