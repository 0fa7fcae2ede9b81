"""Programs run with the remedies that need no root: the preload library and what it is told."""
