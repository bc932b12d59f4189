"""The console: a web page on which people see, search, explain, correct and erase memories."""

from elytron_core.lazy import lazy_exports

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "elytron_console.console_host": (
            "ConsoleHost ModelConfig ModelConfigChange ModelSetting ModelSettings SmokeCheck StorageReport "
            "models_in_use"
        ),
        "elytron_console.surfaces": "console_surfaces",
    },
)
