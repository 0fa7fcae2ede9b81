# a Rust program of threads and channels
# needs: rustc
prepare() { rustc -O -o channels "$SOURCES/channels.rs"; }
run() { $TRACE ./channels; }
