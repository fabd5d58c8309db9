"""lmc.passes."""
