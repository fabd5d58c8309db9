"""lmc.frontend.capture."""
