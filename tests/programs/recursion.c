/* A function that calls itself in six places, in any order, and two functions that call each other.
 */
#include <stdlib.h>

static unsigned state = 1;

struct node {
    struct node* child;
    char data[200];
};

static struct node* build(int depth) {
    struct node* made = calloc(1, sizeof *made);
    if (depth == 0) return made;
    state = state * 1103515245u + 12345u;
    switch (state >> 16 & 7) {
        case 0:
            made->child = build(depth - 1);
            break;
        case 1:
            made->child = build(depth - 1);
            break;
        case 2:
            made->child = build(depth - 1);
            break;
        case 3:
            made->child = build(depth - 1);
            break;
        case 4:
            made->child = build(depth - 1);
            break;
        default:
            made->child = build(depth - 1);
            break;
    }
    made->data[depth] = 1;
    return made;
}

static void* odd(int left);
static void* even(int left) {
    char* made = malloc(300);
    made[0] = left > 0 && odd(left - 1) != NULL;
    return made;
}
static void* odd(int left) {
    char* made = malloc(400);
    made[0] = left > 0 && even(left - 1) != NULL;
    return made;
}

int main(void) {
    for (int i = 0; i < 500; ++i) build(15);
    return even(100) == NULL;
}
