"""lmc.kernels."""
