// Reads the last 4 or 8 bytes of a line again and again, by the instruction -DINSTRUCTION names.
#ifndef OPERANDS
#define OPERANDS "%%xmm1, %%xmm0"
#endif

int main(void) {
    static TYPE values[128 / sizeof(TYPE)] __attribute__((aligned(64)));
    for (int i = 0; i < 100000; ++i) {
        __asm__ volatile(INSTRUCTION " %0, " OPERANDS ::"m"(values[64 / sizeof(TYPE) - 1])
                         : "xmm0", "xmm1");
    }
    return 0;
}
