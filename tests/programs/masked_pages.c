// Stores by one instruction whose mask lets a single element through, or that sets a bit. It lies
// on a page that nothing else touches, and all other elements on the page before.
#include <stdlib.h>
#include <string.h>

static char pages[2][4096] __attribute__((aligned(4096)));
static char* const next = pages[1];

__attribute__((target("avx2"))) static void dwords(void) {
    __asm__ volatile(
        "vpcmpeqd %%xmm1, %%xmm1, %%xmm1\n vpslldq $12, %%xmm1, %%xmm1\n"
        "vpxor %%xmm0, %%xmm0, %%xmm0\n vpmaskmovd %%xmm0, %%xmm1, (%0)" ::"r"(next - 12)
        : "xmm0", "xmm1", "memory");
}
#define LAST(instruction, bytes)                                                        \
    __asm__ volatile("kmovq %0, %%k1\n " instruction::"r"(0x80l), "r"(next - 7 * bytes) \
                     : "xmm0", "memory")
static void doubles(void) { LAST("vmovupd %%zmm0, (%1)%{%%k1%}", 8); }
static void narrow(void) { LAST("vpmovqb %%zmm0, (%1)%{%%k1%}", 1); }

static void bit(void) {  // of a string, by a register
    __asm__ volatile("btsq %0, (%1)" ::"r"(4096l * 8), "r"(pages[0]) : "memory", "cc");
}

int main(int argc, char** argv) {
    const struct {
        const char* name;
        void (*store)(void);
    } kinds[] = {{"bit", bit}, {"dwords", dwords}, {"doubles", doubles}, {"narrow", narrow}};
    if (!__builtin_cpu_supports("avx2")) return 77;
    pages[0][0] = 1;
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof *kinds; ++i) {
        if (strcmp(argv[1], kinds[i].name) != 0) continue;
        if (i > 1 && !__builtin_cpu_supports("avx512bw")) return 77;
        kinds[i].store();
    }
    return 0;
}
