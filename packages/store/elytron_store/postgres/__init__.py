"""The Postgres engine. Its address is read without the driver; the rest is loaded only if a store is opened."""
