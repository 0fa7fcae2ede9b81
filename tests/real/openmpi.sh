# two ranks of Open MPI
# needs: mpicc.openmpi mpirun.openmpi
prepare() { mpicc.openmpi -O2 -o ranks "$SOURCES/ranks.c"; }
run() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    mpirun.openmpi --oversubscribe -n 2 $TRACE ./ranks
}
