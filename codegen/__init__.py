"""lmc.codegen."""
