# a timer that interrupts the program a thousand times a second
# needs: gcc
# qemu: QEMU 7.2 dies of SIGSEGV under so many signals, also without the tracer
prepare() { gcc -O2 -o timers "$SOURCES/timers.c"; }
run() { $TRACE ./timers; }
