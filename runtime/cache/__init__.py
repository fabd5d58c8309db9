"""KV memory: who owns a slot, and which prefixes are cached."""
