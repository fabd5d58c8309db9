"""The workloads' programs."""
