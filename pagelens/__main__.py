"""Entry point of the `pagelens` command and of `python -m pagelens`."""

from pagelens.interrupts import ending_at_once


def main() -> None:
    """Runs the command line."""
    with ending_at_once():
        from pagelens import cli
    cli.main()


if __name__ == "__main__":
    main()
