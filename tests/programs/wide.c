// One kind of AVX-512 instruction, in so many rounds: wide KIND ROUNDS [nothing]. Ends with 77
// where the processor lacks it. With `nothing`, masks let nothing through.
#include <cpuid.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static double numbers[4096] __attribute__((aligned(64)));
static double area[2048] __attribute__((aligned(64)));
static int32_t places[16] = {3, 400, 70, 71, 9, 1000, 2000, 11, 1, 2, 3, 4, 5, 6, 7, 8};
static uint64_t some = 0xb5, bytes = 0x8000f0000ff00001;  // 5 of 8 elements, 14 of 64 bytes

#define MASKED(text, mask)                                                                       \
    __asm__ volatile("kmovq %0, %%k1\n" text::"r"(mask), "r"(numbers + 512), "r"(numbers + 1024) \
                     : "xmm0", "xmm1", "memory")

static void moves(void) {
    MASKED("vmovapd (%1), %%zmm0%{%%k1%}\n vmovapd %%zmm0, (%2)%{%%k1%}", some);
}
static void byte_moves(void) { MASKED("vmovdqu8 3(%1), %%zmm0%{%%k1%}", bytes); }
// No mask: an instruction as any other, of eight accesses of 8 bytes.
static void whole(void) {
    if (some == 0) return;
    MASKED("vmovdqu8 (%1), %%zmm0\n vmovdqu8 %%zmm0, (%2)", some);
}
static void compress(void) { MASKED("vpcompressq %%zmm0, 8(%2)%{%%k1%}", some); }
static void byte_compress(void) { MASKED("vpcompressb %%zmm0, 5(%2)%{%%k1%}", bytes); }
static void word_compress(void) { MASKED("vpcompressw %%zmm0, 6(%2)%{%%k1%}", some); }
static void byte_expand(void) { MASKED("vpexpandb 5(%1), %%zmm0%{%%k1%}", bytes); }
static void byte_sums(void) { MASKED("vpaddb (%1), %%zmm0, %%zmm0%{%%k1%}", bytes); }
static void word_sums(void) { MASKED("vpsubw 2(%1), %%zmm0, %%zmm0%{%%k1%}", some); }
static void dot_products(void) { MASKED("vpdpbusd (%1), %%zmm0, %%zmm0%{%%k1%}", some); }
// Only bit 0 of the mask counts.
static void scalars(void) {
    MASKED("vmovss (%1), %%xmm0%{%%k1%}\n vaddsd (%1), %%xmm0, %%xmm0%{%%k1%}", some);
    MASKED("vmovsd %%xmm0, (%2)%{%%k1%}\n vmulss (%1), %%xmm0, %%xmm0%{%%k1%}", some & ~1ul);
}
// Each element of memory goes to several of the register.
static void groups(void) {
    MASKED("vbroadcasti64x2 (%1), %%zmm0%{%%k1%}\n vbroadcastf32x4 (%1), %%zmm0%{%%k1%}", some);
}
// Bits beyond the register's eight elements.
static void beyond(void) { MASKED("vaddpd (%1)%{1to8%}, %%zmm0, %%zmm0%{%%k1%}", some << 8); }
// The mask is of the register, and all of the operand is read.
static void permute(void) {
    MASKED("vpermd (%1), %%zmm0, %%zmm0%{%%k1%}\n vpsrlw (%1), %%zmm0, %%zmm0%{%%k1%}", some);
}
static void repeated(void) {
    __asm__ volatile(
        "kmovq %0, %%k1\n vpxor %%xmm1, %%xmm1, %%xmm1\n vpscatterdq %%zmm0, "
        "(%1,%%ymm1,8)%{%%k1%}" ::"r"(some),
        "r"(numbers)
        : "xmm0", "xmm1", "memory");
}
static void expand(void) { MASKED("vexpandpd 8(%1), %%zmm0%{%%k1%}", some); }
static void broadcast(void) { MASKED("vaddpd (%1)%{1to8%}, %%zmm0, %%zmm0%{%%k1%}", some); }
static void narrow(void) { MASKED("vpmovqd %%zmm0, (%2)%{%%k1%}", some); }
static void gather(void) {
    __asm__ volatile(
        "kmovq %0, %%k1\n vmovdqu %2, %%ymm1\n vgatherdpd (%1,%%ymm1,8), %%zmm0%{%%k1%}" ::"r"(
            some),
        "r"(numbers), "m"(places)
        : "xmm0", "xmm1", "memory");
}
static void scatter(void) {
    __asm__ volatile(
        "kmovq %0, %%k1\n vmovdqu %2, %%ymm1\n vscatterdpd %%zmm0, (%1,%%ymm1,8)%{%%k1%}" ::"r"(
            some),
        "r"(numbers), "m"(places)
        : "xmm0", "xmm1", "memory");
}
// All that the processor has of x87, SSE, AVX and AVX-512.
static void save(void) {
    __asm__ volatile("xsave64 %0"
                     : "=m"(area)
                     : "a"((uint32_t)(some == 0 ? 0 : 0xe7)), "d"(0)
                     : "memory");
}

// Of AVX, the upper halves of ZMM0-15, and ZMM16-31, only the last are in use.
#define VECTORS                                                                               \
    "memory", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", \
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15"
static void save_used(void) {
    if (some == 0) return;
    __asm__ volatile("vzeroall\n vpternlogd $255, %%zmm16, %%zmm16, %%zmm16\n xsavec64 %0"
                     : "+m"(area)
                     : "a"(0xc4), "d"(0)
                     : VECTORS);
}
static void restore_used(void) {
    ((uint64_t*)area)[64] = 0x80;              // what the area holds
    ((uint64_t*)area)[65] = 1ul << 63 | 0xc4;  // what it has room for
    if (some == 0) return;
    __asm__ volatile("xrstor64 %0" ::"m"(area), "a"(0xc4), "d"(0) : VECTORS);
}

int main(int argc, char** argv) {
    const struct {
        const char* name;
        void (*run)(void);
    } kinds[] = {{"moves", moves},
                 {"byte_moves", byte_moves},
                 {"compress", compress},
                 {"expand", expand},
                 {"broadcast", broadcast},
                 {"narrow", narrow},
                 {"gather", gather},
                 {"scatter", scatter},
                 {"save", save},
                 {"whole", whole},
                 {"byte_sums", byte_sums},
                 {"word_sums", word_sums},
                 {"scalars", scalars},
                 {"groups", groups},
                 {"beyond", beyond},
                 {"permute", permute},
                 {"repeated", repeated},
                 {"save_used", save_used},
                 {"restore_used", restore_used},
                 {"byte_compress", byte_compress},
                 {"word_compress", word_compress},
                 {"byte_expand", byte_expand},
                 {"dot_products", dot_products}};
    const size_t count = sizeof kinds / sizeof *kinds, newer = count - 4;  // VBMI2 and VNNI
    const unsigned newer_bits = 1u << 6 | 1u << 11;
    unsigned a, b, c = 0, d;
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl")) return 77;
    if (argc == 4) some = bytes = 0;
    for (size_t i = 0; argc >= 3 && i < count; ++i) {
        if (strcmp(argv[1], kinds[i].name) != 0) continue;
        if (i >= newer && (c & newer_bits) != newer_bits) return 77;
        for (int round = atoi(argv[2]); round > 0; --round) kinds[i].run();
        return 0;
    }
    return 1;
}
