"""The fleet's page: the same files from a server that only reads, or in a folder of their own."""

from pagelens.site.page.export import export_page
from pagelens.site.page.server import make_app, serve_page

__all__ = ["export_page", "make_app", "serve_page"]
