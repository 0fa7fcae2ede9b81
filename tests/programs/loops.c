// Loops of one block, which DynamoRIO's client records as such: loops [rounds]. Their strides,
// directions and lengths differ, and some of their lines are of one set of the caches.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE 4096
static _Alignas(PAGE) char from[64 * PAGE], to[64 * PAGE];
static _Alignas(PAGE) int32_t places[PAGE];
static _Alignas(PAGE) double numbers[8 * PAGE];

// Each instruction of the body runs `count` times; %0 and %1 are pointers into the arrays.
#define LOOP(body, a, b, count)                                                                \
    do {                                                                                       \
        char *one = (a), *other = (b);                                                         \
        long left = (count);                                                                   \
        __asm__ volatile("1:\n " body "\n sub $1, %2\n jne 1b"                                 \
                         : "+r"(one), "+r"(other), "+r"(left)::"rax", "xmm0", "memory", "cc"); \
    } while (0)

__attribute__((noinline)) static void strides(long count) {
    LOOP("mov (%0), %%rax\n mov %%rax, (%1)\n add $8, %0\n add $8, %1", from, to, count);
    LOOP("mov (%0), %%rax\n mov %%rax, (%1)\n sub $8, %0\n add $4, %1", from + 32 * PAGE, to + 3,
         count);
    LOOP("movb (%0), %%al\n addb $1, (%1)\n add $3, %0\n sub $5, %1", from, to + 32 * PAGE, count);
    LOOP("movups (%0), %%xmm0\n movups %%xmm0, 24(%1)\n add $16, %0\n lea 16(%1), %1", from + 8, to,
         count);
    LOOP("incq (%0)\n mov %0, %%rax\n add $7, %0", from, to, count);
    LOOP("incq (%0)\n incq 4096(%0)\n incq 8192(%0)\n incq 12288(%1)\n add $8, %0\n", from, to,
         count);
    LOOP("incq (%0)\n incq (%1)\n incq 64(%0)\n add $2, %0", from + 60, to, count);
    LOOP("mov (%0), %%rax\n mov %%rax, 4096(%0)\n mov %%rax, 8192(%1)\n add $8, %0\n add $8, %1",
         from, to, count);  // three lines of a set
    LOOP("incq (%0)\n add $72, %0\n", from, to, count);
    LOOP("incq (%0)\n add $0x1000, %0\n sub $0x1000, %1\n", from, to, count < 60 ? count : 60);
    LOOP("nop", from, to, count);
}

// The addresses of one access depend on what another one reads.
__attribute__((noinline)) static void gather(long count) {
    double sum = 0;
    long at = 0;
    __asm__ volatile(
        "1:\n movslq (%2,%1,4), %%rax\n movsd (%3,%1,8), %%xmm0\n add $1, %1\n"
        "addsd (%4,%%rax,8), %%xmm0\n addsd %%xmm0, %0\n cmp %5, %1\n jne 1b"
        : "+x"(sum), "+r"(at)
        : "r"(places), "r"(numbers), "r"(numbers + 4 * PAGE), "r"(count)
        : "rax", "xmm0", "memory", "cc");
}

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < PAGE; ++i) places[i] = (int32_t)(i * 2654435761u >> 20) & (PAGE - 1);
    for (int round = 0; round < rounds; ++round) {
        strides(1000);
        gather(PAGE);
        for (long count = 1; count < 12; ++count) {
            strides(count);
            gather(count);
            LOOP("incq (%0)\n add $8, %0", from, to, 1 + count / 4);  // so short that it is no loop
        }
        LOOP("nop", from, to, 200000);                       // more than one word counts
        LOOP("incq (%0)\n mov %0, %%rax", from, to, 70000);  // stays in its line
    }
    puts("done");
    return 0;
}
