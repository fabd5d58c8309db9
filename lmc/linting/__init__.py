"""Diagnostics of programs: the rules of `lmc.passes.lint` joined with the source, as `lmc lint`."""
