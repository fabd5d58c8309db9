"""lmc.runtime.cache."""
