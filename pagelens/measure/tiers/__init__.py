"""A GPU's two memories, measured from the GPU: its own, and pinned host memory that its kernels reach."""
