"""The run time: executor, eager mode, oracle, and the engine that serves model calls."""
