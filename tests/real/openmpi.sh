# two ranks of Open MPI
# needs: mpicc.openmpi mpirun.openmpi
# qemu: QEMU has no process_vm_readv; set OMPI_MCA_btl_vader_single_copy_mechanism=none
prepare() { mpicc.openmpi -O2 -o ranks "$SOURCES/ranks.c"; }
run() {
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    mpirun.openmpi --oversubscribe -n 2 $TRACE ./ranks
}
