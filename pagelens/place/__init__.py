"""Two-level memory: which objects of a program lie in the fast one."""
