"""Imports logs of other tools as recordings."""
