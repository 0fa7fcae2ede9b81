// A write barrier by page protection: each first write to a page faults, and the handler allows it.
// Another handler leaves by siglongjmp, on a stack of its own; divisions by zero are stepped over.
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { pages = 256, page = 4096 };
static char* heap;
static int written, left, divided;
static sigjmp_buf out;

static void on_fault(int number, siginfo_t* info, void* context) {
    (void)number, (void)context;
    char* at = (char*)((long)info->si_addr & -page);
    if (at < heap || at >= heap + pages * page) siglongjmp(out, 1);
    ++written;
    mprotect(at, page, PROT_READ | PROT_WRITE);
}

static void on_division(int number, siginfo_t* info, void* context) {
    (void)number, (void)info;
    ucontext_t* state = context;
    ++divided;
    state->uc_mcontext.gregs[REG_RIP] += 2;  // the length of `div %ecx`
    state->uc_mcontext.gregs[REG_RAX] = 42;
}

int main(void) {
    stack_t own = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    sigaltstack(&own, NULL);
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    action.sa_sigaction = on_division;
    sigaction(SIGFPE, &action, NULL);
    heap = mmap(NULL, pages * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long sum = 0;
    for (int round = 0; round < 8; ++round) {
        for (int i = 0; i < pages * page; i += 64) heap[i] += i / page + round;
        mprotect(heap, pages * page, PROT_READ);
        for (int i = 0; i < 100; ++i) {
            if (sigsetjmp(out, 1) == 0) {
                *(volatile int*)(long)(i * 8) = 1;
            } else {
                ++left;
            }
        }
        for (int i = 0; i < pages * page; i += 64) sum += heap[i];
        unsigned quotient = 7;
        __asm__ volatile("xor %%edx, %%edx\n xor %%ecx, %%ecx\n div %%ecx"
                         : "+a"(quotient)::"rcx", "rdx");
        sum += quotient;
    }
    printf("%ld: %d written, %d left, %d divided\n", sum, written, left, divided);
    return 0;
}
