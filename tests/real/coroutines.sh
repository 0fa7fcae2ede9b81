# coroutines on stacks of their own (swapcontext)
# needs: gcc
prepare() { gcc -O2 -o coroutines "$SOURCES/coroutines.c"; }
run() { $TRACE ./coroutines; }
