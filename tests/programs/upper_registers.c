// Writes a register that only AVX-512 has, then a mask register, and returns whether the first kept
// its value. Nothing ran before that could use AVX-512: this program has no libc. Without AVX-512
// the status is 77, as of a skipped test.

#include <cpuid.h>

static int has_avx512(void) {
    unsigned eax, ebx, ecx, edx, low = 0, high;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & bit_OSXSAVE)) return 0;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 0xe6) == 0xe6 && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) &&
           (ebx & bit_AVX512VL);
}

static int keeps_its_value(void) {
    int value;
    __asm__ volatile(
        "vpbroadcastd %1, %%ymm17\n"
        "jmp 1f\n"
        "1: kmovw %1, %%k1\n"
        "jmp 2f\n"
        "2: vmovdqa32 %%ymm17, %%ymm0\n"
        "vmovd %%xmm0, %0"
        : "=r"(value)
        : "r"(42)
        : "xmm0");
    return value == 42;
}

void _start(void) {
    const int status = has_avx512() ? !keeps_its_value() : 77;
    __asm__ volatile("syscall" : : "a"(231L), "D"((long)status) : "rcx", "r11", "memory");
    __builtin_unreachable();
}
