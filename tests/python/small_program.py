"""A program of 8 MiB, and a machine file on which explaining it takes a second."""

# 64 MiB of cache, 4 cores.
MACHINE = """
schema = 1
name = "small"
title = "Small node (4 cores), fast memory as a direct-mapped cache"
mode = "cache"
[cores]
count = { value = 4, assumed = "test" }
frequency = { value = "1.4 GHz", assumed = "test" }
instructions_per_cycle = { value = 2.0, assumed = "test" }
outstanding_lines = { value = 36, assumed = "test" }
[l1]
size = { value = "32 KiB", assumed = "test" }
ways = { value = 8, assumed = "test" }
shared_by = { value = 1, assumed = "test" }
[l2]
size = { value = "1 MiB", assumed = "test" }
ways = { value = 16, assumed = "test" }
shared_by = { value = 2, assumed = "test" }
[memory_side_cache]
ways = { value = 1, assumed = "test" }
miss_latency = { value = "270 ns", assumed = "test" }
[fast_memory]
size = { value = "64 MiB", assumed = "test" }
bandwidth = { value = "35 GB/s", assumed = "test" }
latency = { value = "180 ns", assumed = "test" }
[ddr]
size = { value = "384 MiB", assumed = "test" }
bandwidth = { value = "9 GB/s", assumed = "test" }
latency = { value = "147 ns", assumed = "test" }
"""

# Sweeps over an array; says whether the library of `pagelens run` was asked for; its status is its argument.
SWEEPS = """
    #include <stdio.h>
    #include <stdlib.h>
    int main(int words, char **word) {
        enum { n = 1 << 20 };
        double* field = malloc(n * sizeof *field);
        double sum = 0;
        for (int sweep = 0; sweep < 3; ++sweep)
            for (int i = 0; i < n; ++i) sum += field[i] = i + sweep;
        printf("sum %g, library %d\\n", sum, getenv("PAGELENS_RUN") != NULL);
        return words > 1 ? atoi(word[1]) : 0;
    }
"""
