// System calls of a compiled program, as far as it makes them through functions of libc.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "tracer/system_calls.hpp"
#include "tracer/tracer.hpp"

namespace pagelens {

// Tells of a meeting of threads. Others see what this one did before, and it what they did.
void meet();
// Tells if the end of the heap has moved since the last call. Call this inside.
void look_at_heap(Vcpu& vcpu);

// Looks whether glibc's allocator frees the program's blocks. Call this inside, first.
void find_allocator();

// libc's own, for threads that the program does not know of.
int real_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*),
                        void* argument);

}  // namespace pagelens
