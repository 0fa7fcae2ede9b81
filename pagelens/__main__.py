"""Entry point of the `pagelens` command (launcher/pagelens) and of `python -m pagelens`.

Nothing that takes time is imported until `main` has set up Ctrl-C. `pagelens/__init__.py` imports nothing
either.
"""

from pagelens.interrupts import end_at_once, ending_at_once


def main() -> None:
    """Run the command line."""
    with ending_at_once():
        from pagelens.cli import main as cli
    try:
        cli.main()
    finally:
        end_at_once()  # the interpreter's own end takes a moment, too


if __name__ == "__main__":
    main()
