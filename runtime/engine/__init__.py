"""The engine: continuous batching over a token-level prefix cache."""
