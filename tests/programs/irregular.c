// One kind of instruction, in so many rounds: irregular KIND ROUNDS [nothing]. Ends with 77
// where the processor lacks it.
#include <immintrin.h>
#include <stdlib.h>
#include <string.h>

static double numbers[4096];
static char text[4096];
static long moved = -1;  // 0: masks let nothing through

__attribute__((target("avx2"))) static void gather(void) {
    const __m128i places = _mm_setr_epi32(3, 4001, 70, 71);
    const __m256d some = _mm256_castsi256_pd(_mm256_setr_epi64x(-1, -1, 0, -1));
    const __m256d got = _mm256_mask_i32gather_pd(_mm256_setzero_pd(), numbers, places, some, 8);
    __asm__ volatile("" ::"x"(got));
}

__attribute__((target("avx2"))) static void masked(void) {
    const __m256i some = _mm256_setr_epi64x(0, moved, moved, 0);
    const __m256d got = _mm256_maskload_pd(numbers + 5, some);
    _mm256_maskstore_pd(numbers + 2002, some, got);
    __asm__ volatile("" ::: "memory");
}

static void compare(void) {  // up to the 300th byte, which differs
    const char *one = text, *other = text + 2048;
    size_t count = 1000;
    __asm__ volatile("repe cmpsb" : "+S"(one), "+D"(other), "+c"(count)::"memory", "cc");
}

static void scan(void) {  // up to the 300th byte
    const char* at = text + 2048;
    size_t count = 1000;
    __asm__ volatile("repne scasb" : "+D"(at), "+c"(count) : "a"(1) : "memory", "cc");
}

static void long_block(void) {  // without a branch, over 128 lines
    double* at = numbers;
    __asm__ volatile(".rept 600\n incq (%0)\n addq $8, %0\n .endr" : "+r"(at)::"memory", "cc");
}

int main(int argc, char** argv) {
    const struct {
        const char* name;
        void (*run)(void);
        int vectors;
    } kinds[] = {{"gather", gather, 1},
                 {"masked", masked, 1},
                 {"compare", compare, 0},
                 {"scan", scan, 0},
                 {"long_block", long_block, 0}};
    text[2048 + 299] = 1;
    moved = argc == 4 ? 0 : -1;
    for (size_t i = 0; argc >= 3 && i < sizeof kinds / sizeof *kinds; ++i) {
        if (strcmp(argv[1], kinds[i].name) != 0) continue;
        if (kinds[i].vectors && !__builtin_cpu_supports("avx2")) return 77;
        for (int round = atoi(argv[2]); round > 0; --round) kinds[i].run();
        return 0;
    }
    return 1;
}
