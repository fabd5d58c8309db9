"""Run the command line as `python -m lmc`."""

from lmc.cli import main

main()
