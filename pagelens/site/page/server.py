"""`pagelens site serve`: serves the page over HTTP, read-only, and by default to this machine only."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from pagelens.errors import Failure, PagelensError, UsageError
from pagelens.site.check import NAME
from pagelens.site.decision import Rule
from pagelens.site.history import open_history
from pagelens.site.page.data import fleet_data, node_data, script
from pagelens.site.status import node_status

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

FILES = {"index.html": "text/html", "page.js": "text/javascript", "page.css": "text/css"}
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
FRESH_S = 30.0  # the fleet is read from the history at most so often
STALE_S = 300.0  # a visit waits for what is older than this


def page_file(name: str) -> bytes:
    """Return one of the page's files."""
    return files("pagelens.site.page").joinpath(name).read_bytes()


@dataclass
class _Fleet:
    """The fleet's script. If it is a little old it is served once more, while a thread reads it again."""

    database: Path
    rule: Rule
    title: str
    _text: str = ""
    _read: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)  # held by the one who reads

    def script(self) -> str:
        """Return the script. Wait for it only if there is none, or one that is too old to show."""
        age = time.monotonic() - self._read
        if not self._text or age > STALE_S:
            with self._lock:
                if not self._text or time.monotonic() - self._read > STALE_S:  # nobody was quicker
                    self._refresh()
        elif age > FRESH_S and self._lock.acquire(blocking=False):
            threading.Thread(target=self._refresh_and_release, daemon=True).start()
        return self._text

    def _refresh(self) -> None:
        with open_history(self.database) as history:
            self._text = script("fleet", fleet_data(history, self.rule, self.title)[1])
        self._read = time.monotonic()

    def _refresh_and_release(self) -> None:
        try:
            with suppress(PagelensError):  # the page says how old it is; the next visit tries again
                self._refresh()
        finally:
            self._lock.release()

    def warm(self) -> None:
        """Read the script before the first visit."""
        self._lock.acquire()
        threading.Thread(target=self._refresh_and_release, daemon=True).start()


def make_app(database: Path, rule: Rule, title: str) -> Starlette:
    """Return the application: the page's files, fleet.js and node/NAME.js.

    Raises Failure without Starlette.
    """
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.gzip import GZipMiddleware
        from starlette.responses import Response
        from starlette.routing import Route
    except ImportError:
        raise _not_installed() from None
    fleet = _Fleet(database, rule, title)
    if database.is_file():
        fleet.warm()

    def answer(text: str | bytes, kind: str, status: int = 200) -> Response:
        return Response(text, status, HEADERS, f"{kind}; charset=utf-8")

    def static(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
        async def get(_: Request) -> Response:
            return answer(page_file(name), kind)

        return get

    def get_fleet(_: Request) -> Response:  # no coroutine: Starlette runs it in a thread
        try:
            return answer(fleet.script(), "text/javascript")
        except PagelensError as error:
            return answer(script("failed", str(error)), "text/javascript")

    def get_node(request: Request) -> Response:
        name = request.path_params["name"]
        try:
            if not re.fullmatch(NAME, name):
                raise UsageError("NODE: no such node")
            with open_history(database) as history:
                found = node_data(node_status(history, rule, name))
        except UsageError as error:
            return answer(script("failed", str(error)), "text/javascript", 404)
        except PagelensError as error:
            return answer(script("failed", str(error)), "text/javascript")
        return answer(script("node", found), "text/javascript")

    routes = [Route(f"/{name}", static(name, kind)) for name, kind in FILES.items()]
    return Starlette(
        routes=[
            Route("/", static("index.html", "text/html")),
            *routes,
            Route("/fleet.js", get_fleet),
            Route("/node/{name}.js", get_node),
        ],
        middleware=[Middleware(GZipMiddleware, minimum_size=2048, compresslevel=4)],
    )


def serve_page(database: Path, rule: Rule, title: str, host: str, port: int) -> None:
    """Serve until Ctrl-C. Raises Failure if the port is taken."""
    app = make_app(database, rule, title)
    try:
        import uvicorn
    except ImportError:
        raise _not_installed() from None
    try:
        uvicorn.run(app, host=host, port=port, log_level="warning", server_header=False)
    except SystemExit as error:  # uvicorn's way to say that it cannot listen
        raise Failure(f"serve: cannot listen on {host}:{port}; name another --port") from error


def _not_installed() -> Failure:
    return Failure(
        "serve: needs starlette and uvicorn; run: pip install 'pagelens[site]', or use site export"
    )
