"""Stores: engines behind the store port, the sealing wrapper, and the suite that proves them."""

from elytron_store.engine import WriteDurability
from elytron_store.store_urls import StoreAddress, WhenMissing, open_as_made, open_store, parse_url, rescue_store

__all__ = ["StoreAddress", "WhenMissing", "WriteDurability", "open_as_made", "open_store", "parse_url", "rescue_store"]
