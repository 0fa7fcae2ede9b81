// Instructions that DynamoRIO does not know by itself, in so many rounds: newer KIND ROUNDS
// [nothing]. Prints what was computed. Ends with 77 where the processor lacks them. With `nothing`,
// masks and tiles let nothing through.
#include <cpuid.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint16_t halves[4096] __attribute__((aligned(64)));
static uint16_t results[4096] __attribute__((aligned(64)));
static int8_t matrix[8][1024] __attribute__((aligned(64)));
static int32_t sums[8][256] __attribute__((aligned(64)));
static uint64_t some = 0xb5;  // five elements, among them the first

// The displacements of a byte are counted in elements or vectors.
static void sum_halves(void) {
    __asm__ volatile(
        "kmovq %0, %%k1\n vmovdqu16 (%1), %%zmm0\n"
        "vaddph 64(%1), %%zmm0, %%zmm0%{%%k1%}\n vmulph 2(%1)%{1to32%}, %%zmm0, %%zmm0%{%%k1%}\n"
        "vmovsh 4(%1), %%xmm1%{%%k1%}\n vmovsh %%xmm1, 4(%2)%{%%k1%}\n"
        "vcvtph2pd 16(%1), %%zmm1%{%%k1%}\n vfmulcph 64(%1), %%zmm0, %%zmm1%{%%k1%}\n"
        "vaddph halves(%%rip), %%zmm0, %%zmm0%{%%k1%}\n"
        "vmovw 6(%1), %%xmm1\n vmovw %%xmm1, 6(%2)\n vmovdqu16 %%zmm0, 64(%2)\n"
        "vcvtsh2si 8(%1), %%rax\n vcvtsi2shl 8(%1), %%xmm1, %%xmm1\n vucomish 8(%1), %%xmm1\n" ::
            "r"(some),
        "r"(halves), "r"(results)
        : "rax", "xmm0", "xmm1", "memory", "cc");
}

static void multiply_tiles(void) {
    struct {
        uint8_t palette, first, unused[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } tiles __attribute__((aligned(64))) = {.palette = 1};
    for (int i = 0; i < 3; ++i) {
        tiles.row_bytes[i] = 32;
        tiles.rows[i] = 8;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(tiles));
    if (some != 0)
        __asm__ volatile(
            "tilezero %%tmm0\n tileloadd (%0,%2,1), %%tmm1\n tileloadd 64(%0,%2,1), %%tmm2\n"
            "tdpbssd %%tmm2, %%tmm1, %%tmm0\n tilestored %%tmm0, (%1,%2,1)" ::"r"(matrix),
            "r"(sums), "r"(1024l)
            : "memory");
    __asm__ volatile("tilerelease");
}

int main(int argc, char** argv) {
    unsigned a, b, c, d = 0;
    __get_cpuid_count(7, 0, &a, &b, &c, &d);
    if (argc < 3) return 1;
    const int tiles = strcmp(argv[1], "tiles") == 0;
    if ((d >> (tiles ? 25 : 23) & 1) == 0) return 77;                  // AMX-INT8, AVX512-FP16
    if (tiles && syscall(SYS_arch_prctl, 0x1023, 18) != 0) return 77;  // ARCH_REQ_XCOMP_PERM
    if (argc == 4) some = 0;
    for (int i = 0; i < 4096; ++i) halves[i] = (uint16_t)(0x3c00 + i % 500);
    for (int i = 0; i < 8 * 1024; ++i) matrix[i / 1024][i % 1024] = (int8_t)(i % 127);
    for (int round = atoi(argv[2]); round > 0; --round) tiles ? multiply_tiles() : sum_halves();
    unsigned long sum = 0;
    for (int i = 0; i < 64; ++i) sum = sum * 31 + results[i];
    for (int i = 0; i < 64; ++i) sum = sum * 31 + (unsigned)sums[i / 8][i % 8];
    printf("%lu\n", sum);
    return 0;
}
