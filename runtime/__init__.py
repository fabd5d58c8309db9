"""lmc.runtime."""
