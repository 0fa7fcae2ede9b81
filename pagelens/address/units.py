"""Sizes that all modelled machines share: lines, frames, and the pages that x86-64 builds from them."""

LINE_BYTES = 64
FRAME_BITS = 12
FRAME_BYTES = 1 << FRAME_BITS
HUGE_PAGE_BITS, GIGANTIC_PAGE_BITS = 21, 30
HUGE_PAGE_BYTES, GIGANTIC_PAGE_BYTES = 1 << HUGE_PAGE_BITS, 1 << GIGANTIC_PAGE_BITS
HUGE_PAGE_FRAMES = 1 << (HUGE_PAGE_BITS - FRAME_BITS)  # 512 frames are a page of 2 MiB
