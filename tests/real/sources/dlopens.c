// Loads two libraries in turn, calls them, and drops them.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    const int times = argc > 1 ? atoi(argv[1]) : 10;
    long sum = 0;
    for (int i = 0; i < times; ++i) {
        void* library = dlopen(i % 2 ? "./two.so" : "./one.so", RTLD_NOW);
        if (library == NULL) return puts(dlerror()), 1;
        int (*value)(void) = (int (*)(void))dlsym(library, "value");
        sum += value() + value();
        dlclose(library);
    }
    printf("%ld\n", sum);
    return 0;
}
