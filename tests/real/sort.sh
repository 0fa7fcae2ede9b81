# GNU sort with two threads
# needs: sort
prepare() { seq 1 60000 | awk '{print ($1 * 7919) % 60013, "line", $1}' >numbers; }
run() { $TRACE sort -n --parallel=2 -S 1M -o sorted numbers; }
