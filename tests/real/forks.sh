# a program that forks 200 children
# needs: gcc
prepare() { gcc -O1 -o forks "$SOURCES/forks.c"; }
run() { $TRACE ./forks; }
