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

int main(int argc, char** argv) {
    const struct {
        const char* name;
        void (*run)(void);
    } kinds[] = {{"moves", moves},         {"byte_moves", byte_moves},
                 {"compress", compress},   {"expand", expand},
                 {"broadcast", broadcast}, {"narrow", narrow},
                 {"gather", gather},       {"scatter", scatter},
                 {"save", save},           {"byte_compress", byte_compress},
                 {"whole", whole}};
    unsigned a, b, c = 0, d;
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    if (!__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl")) return 77;
    if (argc >= 3 && strcmp(argv[1], "byte_compress") == 0 && (c & 1u << 6) == 0)
        return 77;  // VBMI2
    if (argc == 4) some = bytes = 0;
    for (size_t i = 0; argc >= 3 && i < sizeof kinds / sizeof *kinds; ++i) {
        if (strcmp(argv[1], kinds[i].name) != 0) continue;
        for (int round = atoi(argv[2]); round > 0; --round) kinds[i].run();
        return 0;
    }
    return 1;
}
