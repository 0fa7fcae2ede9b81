# two ranks of MPICH
# needs: mpicc.mpich mpirun.mpich
prepare() { mpicc.mpich -O2 -o ranks "$SOURCES/ranks.c"; }
run() { mpirun.mpich -n 2 $TRACE ./ranks; }
