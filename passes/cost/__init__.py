"""Cost before running: bounds on tokens, steps and cache of a program, by source line."""
