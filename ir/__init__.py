"""lmc.ir."""
