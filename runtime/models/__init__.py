"""lmc.runtime.models."""
