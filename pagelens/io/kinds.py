"""The kinds of operations. iorecord/record.h has the same numbers, which are part of the file format."""

BEGIN, END, FILE, TEXT = 1, 2, 3, 4  # only in raw logs

KINDS = {
    "open": 5, "close": 6, "read": 7, "write": 8, "seek": 9, "sync": 10, "datasync": 11, "advise": 12,
    "mmap": 13, "msync": 14, "dup": 15, "setfl": 16, "truncate": 17, "allocate": 18, "copy": 19,
    "sync_range": 20, "readahead": 21,
}  # fmt: skip
NAMES = {number: name for name, number in KINDS.items()}
