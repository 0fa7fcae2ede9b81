"""The bits of /proc/PID/pagemap and /proc/kpageflags that pagelens uses.

Source: Linux, Documentation/admin-guide/mm/pagemap.rst.
"""

import numpy as np

ENTRY_BYTES = 8  # of both files
PRESENT = np.uint64(1 << 63)  # pagemap: the page is in memory
FRAME = np.uint64((1 << 55) - 1)  # pagemap: its frame number, 0 without CAP_SYS_ADMIN
BUDDY = 10  # kpageflags: the frame is free, in a block of the buddy allocator
