"""Entry point of the `pagelens` command (launcher/pagelens) and of `python -m pagelens`.

Until `main` has seen to Ctrl-C nothing is imported that takes time; nor by `pagelens/__init__.py`.
"""

from pagelens.interrupts import end_at_once, ending_at_once


def main() -> None:
    """Runs the command line."""
    with ending_at_once():
        from pagelens.cli import main as cli
    try:
        cli.main()
    finally:
        end_at_once()  # the interpreter's own end takes a moment, too


if __name__ == "__main__":
    main()
