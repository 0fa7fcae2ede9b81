"""What operations on the files of one folder take, for the section [io] of a machine file."""
