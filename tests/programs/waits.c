/* Waits for another process, and is ended by signal argv[1] meanwhile or, with argv[2], afterwards.
 */
#include <signal.h>
#include <stdlib.h>

#include "pagelens.h"

static volatile char asked[64];

int main(int argc, char** argv) {
    struct pagelens_record record = {PAGELENS_WAIT_BEGIN, 0, 0};
    pagelens_ring(&record);
    for (int i = 0; i < 1 << 20; ++i) asked[0]; /* asks again and again */
    if (argc > 2) {
        record.kind = PAGELENS_WAIT_END;
        pagelens_ring(&record);
    }
    return raise(atoi(argv[1]));
}
