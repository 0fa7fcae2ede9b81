/* Two children of fork read an array that their parent wrote, and an array of zeros, one page of
   each line; they write what all three share. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { mib = 1 << 20 };

static char* memory(int flags) {
    char* found = mmap(NULL, mib, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED) abort();
    return found;
}

int main(void) {
    char *written = memory(MAP_PRIVATE), *untouched = memory(MAP_PRIVATE),
         *common = memory(MAP_SHARED);
    for (int i = 0; i < mib; i += 64) written[i] = 1;
    for (int child = 0; child < 2; ++child) {
        if (fork() == 0) {
            int sum = 0;
            for (int sweep = 0; sweep < 4; ++sweep)
                for (int i = 0; i < mib; i += 64) {
                    sum += written[i] + untouched[i];
                    common[i] = 2;
                }
            _exit(sum == 4 * mib / 64 ? 0 : 1);
        }
    }
    int status = 0, failed = 0;
    while (wait(&status) > 0) failed |= status;
    return failed != 0;
}
