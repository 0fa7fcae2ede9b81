#include "preload/counts.h"

struct counts counts;
