# tar with gzip as its child
# needs: tar gzip
prepare() {
    mkdir files
    for i in $(seq 50); do seq $((i * 100)) >"files/f$i"; done
}
run() {
    $TRACE tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -czf files.tar.gz files
    $TRACE tar -xzOf files.tar.gz files/f7 | cksum
}
