// Stores to a page that holds code, and to one that may not be written to, which a handler of
// SIGSEGV allows. All registers must be after the store what they were before. Prints those that
// are not.
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGISTERS \
    R(rax) R(rcx) R(rdx) R(rsi) R(rdi) R(r8) R(r9) R(r10) R(r11) R(r12) R(r13) R(r14) R(r15) R(rbx)

static char* page;
uint64_t given[14], found[14];

static void allow(int number) {
    static int faults;
    if (++faults > 100) _exit(number);  // they go on
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

int main(void) {
    page = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    page[0] = (char)0xc3;  // ret
    signal(SIGSEGV, allow);
    int wrong = 0;
    for (int round = 0; round < 6; ++round) {
        for (uint64_t i = 0; i < 14; ++i) given[i] = 0x1234567800000000 + i + (uint64_t)round * 256;
        given[2] = 5;  // rdx, rsi and rdi
        given[3] = (uint64_t)given;
        given[4] = (uint64_t)page + 8;
        if (round < 3) {
            void (*code)(void);
            __builtin_memcpy(&code, &page, sizeof code);
            code();
        } else {
            mprotect(page, 4096, PROT_READ);
        }
        __asm__ volatile(".set at, 0\n"
#define R(name) "movq given+at(%%rip), %%" #name "\n .set at, at + 8\n"
                         REGISTERS
#undef R
                         "jmp 1f\n"
                         "1: movl -4(%%rsi, %%rdx), %%r8d\n"  // as memcpy of 5 bytes
                         "movl (%%rsi), %%r9d\n"
                         "movl %%r8d, -4(%%rdi, %%rdx)\n"
                         "movl %%r9d, (%%rdi)\n"
                         "movq given+40(%%rip), %%r8\n"
                         "movq given+48(%%rip), %%r9\n"
                         ".set at, 0\n"
#define R(name) "movq %%" #name ", found+at(%%rip)\n .set at, at + 8\n"
                         REGISTERS
#undef R
                         ::
                             : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
                               "r13", "r14", "r15", "rbx", "memory");
#define R(name) #name,
        static const char* const names[] = {REGISTERS};
        for (int i = 0; i < 14; ++i) {
            if (given[i] == found[i]) continue;
            printf("%s is %llx, not %llx\n", names[i], (long long)found[i], (long long)given[i]);
            ++wrong;
        }
    }
    puts("done");
    return wrong;
}
