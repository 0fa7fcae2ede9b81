"""The lab: real kernels in emulated guests, and the machine models fed by their accesses."""
