"""How many tokens are computed, on workloads of real text, against what sharing allows."""
