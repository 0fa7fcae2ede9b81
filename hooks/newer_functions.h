/* Functions that glibc has from version 2.34 on, for libraries that are compiled for older ones. */
#ifndef PAGELENS_NEWER_FUNCTIONS_H
#define PAGELENS_NEWER_FUNCTIONS_H

#include <features.h>

#if !__GLIBC_PREREQ(2, 34)
int close_range(unsigned first, unsigned last, int flags);
void closefrom(int first);
#endif

#endif
