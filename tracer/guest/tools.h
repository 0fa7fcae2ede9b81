/* The parts of /bin/lab, the program by which the lab works inside the guest. */
#ifndef PAGELENS_TOOLS_H
#define PAGELENS_TOOLS_H

#include <stddef.h>

/* Prints the words and errno's meaning to stderr, and ends with status 125. */
_Noreturn void fail(const char* what);

/* Hands bytes to the lab, past the serial port. */
void hand_over(const void* bytes, size_t size);

/* `lab job PHASE PROGRAM [ARGUMENT]...`: runs a program as a phase of the lab, and hands over which
 * frames it held (a bitmap, bit n of byte m for frame 8m + n) when it held most; then, in a bitmap
 * as long, which of these at multiples of 512 were of large pages. Ends as it did. An empty PHASE
 * is not counted. */
int job(int argc, char** argv);

/* `lab work FILE`: takes and gives back memory as an array of struct work_step says
 * (work_step.h). */
int work(int argc, char** argv);

/* `lab hold FILE`: the same in a process of its own, which then keeps for good what it has left. */
int hold(int argc, char** argv);

#endif
