# OpenMP with eight threads, which is more than the machine may have
# needs: gcc
prepare() { gcc -O2 -fopenmp -o eight "$SOURCES/eight.c"; }
run() { OMP_NUM_THREADS=8 $TRACE ./eight; }
