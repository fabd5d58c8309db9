"""lmc.runtime.constraint."""
