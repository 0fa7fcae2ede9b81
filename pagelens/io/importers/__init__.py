"""Logs of other tools as recordings."""
