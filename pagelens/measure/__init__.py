"""Speeds of this machine as distributions over page maps: each trial has frames of its own."""
