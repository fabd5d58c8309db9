"""Run the command line: `lmc`, or `python -m lmc`."""

import sys


def main() -> None:
    """Run the command line; an interrupt while it is being imported is told like any other."""
    try:
        from lmc.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
