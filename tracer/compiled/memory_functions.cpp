// libc's functions that copy, fill, compare and search memory. Their own loads and stores are not
// compiled for tracing, so these functions tell of them: the bytes that each has to look at.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>

#include <cstddef>
#include <cstdint>

#include "tracer/compiled/accesses.hpp"

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

// Compiled without built-in functions, so that these loops do not become calls of memcpy.
void* plain_copy(void* to, const void* from, std::size_t bytes) {
    void* at = to;
    asm volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(bytes)::"memory");
    return to;
}
void* plain_move(void* to, const void* from, std::size_t bytes) {
    auto* const out = static_cast<unsigned char*>(to);
    const auto* const in = static_cast<const unsigned char*>(from);
    if (out <= in || out >= in + bytes) return plain_copy(to, from, bytes);
    while (bytes-- > 0) out[bytes] = in[bytes];
    return to;
}
void* plain_fill(void* to, int value, std::size_t bytes) {
    void* at = to;
    asm volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(value) : "memory");
    return to;
}
int plain_compare(const void* a, const void* b, std::size_t bytes) {
    const auto* const x = static_cast<const unsigned char*>(a);
    const auto* const y = static_cast<const unsigned char*>(b);
    for (std::size_t i = 0; i < bytes; ++i)
        if (x[i] != y[i]) return x[i] - y[i];
    return 0;
}
std::size_t plain_length(const char* text) {
    std::size_t length = 0;
    while (text[length] != 0) ++length;
    return length;
}

// The loader calls these functions before it has relocated the program, and dlsym() may, too.
// Until the tracer has begun, the plain loops do the work.
struct Functions {
    void* (*copy)(void*, const void*, std::size_t) = plain_copy;
    void* (*move)(void*, const void*, std::size_t) = plain_move;
    void* (*fill)(void*, int, std::size_t) = plain_fill;
    int (*compare)(const void*, const void*, std::size_t) = plain_compare;
    std::size_t (*length)(const char*) = plain_length;
} real;

template <typename Function>
void find(Function& known, const char* name) {
    if (void* const found = ::dlsym(RTLD_NEXT, name)) known = reinterpret_cast<Function>(found);
}

bool told() { return pagelens_thread != nullptr && pagelens::own.inside == 0; }
std::uint64_t word(const void* address) { return reinterpret_cast<std::uint64_t>(address); }

}  // namespace

namespace pagelens {

void find_memory_functions() {
    Functions found;
    find(found.copy, "memcpy");
    find(found.move, "memmove");
    find(found.fill, "memset");
    find(found.compare, "memcmp");
    find(found.length, "strlen");
    real = found;
}

}  // namespace pagelens

EXPORT void* memcpy(void* to, const void* from, std::size_t bytes) noexcept {
    if (told()) pagelens::touch_copy(word(to), word(from), bytes);
    return real.copy(to, from, bytes);
}
EXPORT void* memmove(void* to, const void* from, std::size_t bytes) noexcept {
    if (told()) pagelens::touch_copy(word(to), word(from), bytes);
    return real.move(to, from, bytes);
}
EXPORT void* memset(void* to, int value, std::size_t bytes) noexcept {
    if (told()) pagelens::touch_range(true, word(to), bytes);
    return real.fill(to, value, bytes);
}
EXPORT int memcmp(const void* a, const void* b, std::size_t bytes) noexcept {
    const int result = real.compare(a, b, bytes);
    if (!told()) return result;
    // It stops at the first difference, which is mostly in the first line.
    std::size_t seen = bytes;
    if (result != 0)
        for (seen = 0; static_cast<const char*>(a)[seen] == static_cast<const char*>(b)[seen];)
            ++seen;
    pagelens::touch_range(false, word(a), seen + (result != 0));
    pagelens::touch_range(false, word(b), seen + (result != 0));
    return result;
}
EXPORT std::size_t strlen(const char* text) noexcept {
    const std::size_t length = real.length(text);
    if (told()) pagelens::touch_range(false, word(text), length + 1);
    return length;
}
EXPORT char* strcpy(char* to, const char* from) noexcept {
    return static_cast<char*>(memcpy(to, from, real.length(from) + 1));
}
EXPORT void* __tsan_memcpy(void* to, const void* from, std::size_t bytes) {
    return memcpy(to, from, bytes);
}
EXPORT void* __tsan_memmove(void* to, const void* from, std::size_t bytes) {
    return memmove(to, from, bytes);
}
EXPORT void* __tsan_memset(void* to, int value, std::size_t bytes) {
    return memset(to, value, bytes);
}
