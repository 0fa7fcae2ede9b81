// Reads a whole number from 1 to `most` from the command line, or ends the program with a usage
// line.
#ifndef EXAMPLES_ARGUMENT_H
#define EXAMPLES_ARGUMENT_H

#include <stdio.h>
#include <stdlib.h>

static inline int argument(int argc, char** argv, int index, int otherwise, int most,
                           const char* name) {
    if (index >= argc) return otherwise;
    char* end;
    const long value = strtol(argv[index], &end, 10);
    if (*end != '\0' || value < 1 || value > most) {
        fprintf(stderr, "%s: %s is '%s'; give a whole number from 1 to %d\n", argv[0], name,
                argv[index], most);
        exit(2);
    }
    return (int)value;
}

#endif
