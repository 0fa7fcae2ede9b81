# a loop compiled for AVX-512
# needs: gcc
# processor: avx512f
# qemu: QEMU does not execute AVX-512
prepare() { gcc -O3 -march=x86-64-v4 -mprefer-vector-width=512 -fopenmp-simd -o wide "$SOURCES/wide.c"; }
run() { $TRACE ./wide; }
