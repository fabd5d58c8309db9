"""lmc.frontend."""
