# xz with two threads, and back
# needs: xz
prepare() { seq 1 60000 >numbers; }
run() {
    $TRACE xz -3 -T2 --block-size=100000 -k numbers
    $TRACE xz -dc numbers.xz | cksum
}
