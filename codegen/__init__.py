"""Code generation: targets, lowering of IR to plans, artifacts."""
