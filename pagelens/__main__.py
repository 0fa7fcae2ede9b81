"""Entry point of the `pagelens` command and of `python -m pagelens`."""

import signal


def main() -> None:
    """Runs the command line."""
    # The imports take a moment; Ctrl-C within it ends the process instead of showing a traceback.
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pagelens import cli

    signal.signal(signal.SIGINT, handler)
    cli.main()


if __name__ == "__main__":
    main()
