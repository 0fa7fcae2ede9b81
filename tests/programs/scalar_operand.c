// Reads the last 8 bytes of a line again and again, by the instruction -DINSTRUCTION names.
int main(void) {
    static double values[16] __attribute__((aligned(64)));
    for (int i = 0; i < 100000; ++i) {
        __asm__ volatile(INSTRUCTION " %0, %%xmm1, %%xmm0" ::"m"(values[7]) : "xmm0", "xmm1");
    }
    return 0;
}
