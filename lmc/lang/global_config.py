"""Settings under the reference frontend's module name `lang.global_config`."""

from lmc.compat import GlobalConfig, global_config

__all__ = ["GlobalConfig", "global_config"]
