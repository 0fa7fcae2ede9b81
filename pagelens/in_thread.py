"""Calls a function in a thread of its own."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import ParamSpec, TypeVar

Given = ParamSpec("Given")
Found = TypeVar("Found")


def in_thread(function: Callable[Given, Found], *args: Given.args, **named: Given.kwargs) -> Future[Found]:
    """Return what the function will return or raise. It should release the GIL."""
    future: Future[Found] = Future()

    def run() -> None:
        try:
            future.set_result(function(*args, **named))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=f"pagelens-{function.__name__}").start()
    return future
