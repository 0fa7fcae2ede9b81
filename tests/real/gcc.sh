# gcc: compiler, assembler and linker, one after the other
# needs: gcc
run() {
    $TRACE gcc -O2 -o forks "$SOURCES/forks.c"
    rm -f forks.trace
}
