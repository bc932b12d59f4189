"""The SQLite engine. Importing it loads the driver; `elytron_store.engines` does so only when it is asked for."""

from elytron_store.sqlite.driver import DriverReport, driver_report
from elytron_store.sqlite.store import SqliteStore

__all__ = ["DriverReport", "SqliteStore", "driver_report"]
