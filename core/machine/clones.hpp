// PAGELENS_CLONES before a function: it is compiled twice, for processors with AVX2 and what came
// with it (x86-64-v3) and for all others, with everything that it calls inlined where it can be;
// when it is first called the loader takes the one for this processor (an ifunc of the ELF format).
//
// Not under the sanitizers: their checks are not set up yet when the loader asks.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__x86_64__) || \
    defined(__clang__)
#define PAGELENS_CLONES
#else
#define PAGELENS_CLONES [[gnu::target_clones("arch=x86-64-v3", "default"), gnu::flatten]]
#endif
