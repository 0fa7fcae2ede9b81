/* Frees a block while the text of an error of dlsym waits to be asked for. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

int main(void) {
    volatile int* const block = malloc(sizeof *block);
    if (!block) return 1;
    *block = dlsym(RTLD_DEFAULT, "no_such_function") != NULL;
    const int found = *block;
    free((void*)block);
    return found;
}
