"""lmc.runtime.engine."""
