/* Visits to a region, each filling an array of its own 1 MiB, between work outside of it on
 * another. Nested and unmatched markers do no harm. */
#include <stdio.h>
#include <stdlib.h>

#include "pagelens.h"

enum { doubles = 1 << 17 };

static void fill(volatile double* array, double value) {
    for (int i = 0; i < doubles; ++i) array[i] = value;
}

int main(int argc, char** argv) {
    const int visits = argc > 1 ? atoi(argv[1]) : 2;
    double* inside = malloc(doubles * sizeof *inside);
    double* outside = malloc(doubles * sizeof *outside);
    pagelens_region_end("fill"); /* was not begun */
    for (int visit = 0; visit < visits; ++visit) {
        fill(outside, visit);
        pagelens_region_begin("fill");
        pagelens_region_begin("fill");
        pagelens_region_end("fill");
        fill(inside, visit);
        pagelens_region_end("fill");
    }
    printf("%g\n", inside[1] + outside[doubles - 1]);
    return 0;
}
