"""The fleet's page. A server that only reads it offers the same files as a folder does."""

from pagelens.site.page.export import export_page
from pagelens.site.page.server import make_app, serve_page

__all__ = ["export_page", "make_app", "serve_page"]
