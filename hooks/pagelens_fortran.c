/* The markers as a function, for Fortran (pagelens.f90) and other languages that call C:
 *     cc -O2 -c pagelens_fortran.c && gfortran -O2 pagelens.f90 app.f90 pagelens_fortran.o */
#include "pagelens.h"

void pagelens_mark(int kind, const char* name, int64_t size);

void pagelens_mark(int kind, const char* name, int64_t size) {
    pagelens_mark_region((enum pagelens_kind)kind, name, (uint64_t)size);
}
