/* String operations over a field, or the same accesses one by one: argv[1] is "reps" or "loop". */
#include <string.h>

enum { bytes = 1 << 20 };
static char from[bytes + 64] __attribute__((aligned(4096)));
static char to[bytes + 64] __attribute__((aligned(4096)));

int main(int argc, char** argv) {
    const int rep = argc > 1 && strcmp(argv[1], "reps") == 0;
    char *source = from + 5, *target = to;
    long left = bytes;
    if (rep) {
        __asm__ volatile("rep stosb" : "+D"(target), "+c"(left) : "a"(0) : "memory");
    } else {
        __asm__ volatile("1: movb %%al, (%0)\n inc %0\n dec %1\n jnz 1b"
                         : "+r"(target), "+r"(left)
                         : "a"(0)
                         : "memory");
    }
    target = to;
    left = bytes / 8;
    if (rep) {
        __asm__ volatile("rep movsq" : "+D"(target), "+S"(source), "+c"(left) : : "memory");
    } else {
        __asm__ volatile(
            "1: mov (%1), %%rax\n mov %%rax, (%0)\n add $8, %0\n add $8, %1\n dec %2\n jnz 1b"
            : "+r"(target), "+r"(source), "+r"(left)
            :
            : "memory", "rax");
    }
    return 0;
}
