// 64 coroutines on stacks of their own, which take turns.
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { count = 64, turns = 100, stack = 1 << 15 };
static ucontext_t home, own[count];
static long sums[count];

static void work(int number) {
    for (int turn = 0; turn < turns; ++turn) {
        for (int i = 0; i < 50; ++i) sums[number] += i * number;
        swapcontext(&own[number], &home);
    }
}

int main(void) {
    for (int i = 0; i < count; ++i) {
        getcontext(&own[i]);
        own[i].uc_stack.ss_sp = malloc(stack);
        own[i].uc_stack.ss_size = stack;
        own[i].uc_link = &home;
        makecontext(&own[i], (void (*)(void))work, 1, i);
    }
    for (int turn = 0; turn <= turns; ++turn)
        for (int i = 0; i < count; ++i) swapcontext(&home, &own[i]);
    long sum = 0;
    for (int i = 0; i < count; ++i) sum += sums[i];
    printf("%ld\n", sum);
    return 0;
}
