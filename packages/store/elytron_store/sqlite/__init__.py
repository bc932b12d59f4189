"""The SQLite engine. Importing it loads the driver, so `elytron_store.store_urls` imports it on demand."""

from elytron_store.sqlite.driver import DriverReport, driver_report
from elytron_store.sqlite.store import SqliteStore

__all__ = ["DriverReport", "SqliteStore", "driver_report"]
