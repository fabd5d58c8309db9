"""Workloads for speed: the same requests as programs of lmc and as plain data for its peers."""
