/* Writes two arrays of 64 MiB, then reads, adds and strides over them four times. */
#include <stdio.h>
#include <stdlib.h>

enum { turns = 4, stride = 16, length = 64 << 20 >> 3 };

int main(void) {
    double *a = malloc(length * sizeof *a), *b = malloc(length * sizeof *b), sum = 0;
    if (a == NULL || b == NULL) return 1;
    for (int i = 0; i < length; i++) a[i] = i;
    for (int i = 0; i < length; i++) b[i] = 1;
    for (int turn = 0; turn < turns; turn++) {
        for (int i = 0; i < length; i++) sum += a[i];
        for (int i = 0; i < length; i++) a[i] += b[i];
        for (int k = 0; k < stride; k++)
            for (int i = k; i < length; i += stride) sum += b[i];
    }
    printf("%g\n", sum);
}
