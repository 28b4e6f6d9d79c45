"""Run the command line: `python -m aiperf_spec`."""

from aiperf_spec.cli import main

if __name__ == "__main__":
    main()
