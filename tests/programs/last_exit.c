// The program's last thread ends by `exit`, not by `exit_group`. Its accesses fill buffers before.
#include <sys/syscall.h>
#include <unistd.h>

static volatile char bytes[4 << 20];

int main(void) {
    for (unsigned i = 0; i < sizeof bytes; i += 64) bytes[i] = 1;
    return (int)syscall(SYS_exit, 7);
}
