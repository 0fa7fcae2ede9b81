# a program that handles SIGSEGV by itself, as collectors of garbage do
# needs: gcc
prepare() { gcc -O2 -o barrier "$SOURCES/barrier.c"; }
run() { $TRACE ./barrier; }
