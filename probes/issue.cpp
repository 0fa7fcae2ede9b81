#include "probes/issue.hpp"

#include <cstdint>
#include <span>
#include <stdexcept>

#include "probes/clock.hpp"
#include "probes/stop.hpp"
#include "probes/team.hpp"

// Each loop executes `text` four or more times in a pass, with %1 the address of data.
#define FOUR_TIMES(text) text text text text
#define PASSES(text) "1:\n" text "sub $1, %0\n jnz 1b\n"

namespace pagelens::probes {
namespace {

constexpr std::size_t data_bytes = 512;

// Operations of a pass, with the end of the loop.
constexpr std::uint64_t chained = 64, adds_and_loads_operations = 16 * 12 + 1,
                        typical_operations = 4 * 14 + 1;
constexpr std::uint64_t chain_passes = 300, adds_and_loads_passes = 400, typical_passes = 1500;

// The sum of two registers, as cores do some additions of constants without a port.
void chain(std::uint64_t passes) {
    asm volatile(PASSES(FOUR_TIMES(FOUR_TIMES(FOUR_TIMES("add %%rax, %%rax\n"))))
                 : "+r"(passes)
                 :
                 : "rax", "cc");
}

void adds_and_loads(std::uint64_t passes, const char* data) {
    asm volatile(
        PASSES(FOUR_TIMES(FOUR_TIMES("add $1, %%r8\n"
                                     "mov (%1), %%rax\n"
                                     "add $1, %%r9\n"
                                     "add $1, %%r10\n"
                                     "mov 64(%1), %%rdx\n"
                                     "add $1, %%r11\n"
                                     "add $1, %%r12\n"
                                     "mov 128(%1), %%rsi\n"
                                     "add $1, %%r13\n"
                                     "add $1, %%r14\n"
                                     "mov 192(%1), %%rdi\n"
                                     "add $1, %%r15\n")))
        : "+r"(passes)
        : "r"(data)
        : "rax", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc",
          "memory");
}

void typical(std::uint64_t passes, char* data) {
    asm volatile(
        "mov $2, %%r14\n"
        "mov $1, %%r15\n" PASSES(FOUR_TIMES("add $1, %%r8\n"
                                            "mov (%1), %%rax\n"
                                            "xor %%r9, %%r10\n"
                                            "mov 64(%1), %%rdx\n"
                                            "lea 8(%%r8), %%r11\n"
                                            "mov %%rdx, 128(%1)\n"
                                            "test %%r15, %%r15\n jz 2f\n"
                                            "mov 192(%1), %%rsi\n"
                                            "add $3, %%r9\n"
                                            "shl $3, %%rsi\n"
                                            "mov 256(%1), %%r12\n"
                                            "cmp %%r15, %%r14\n je 2f\n"
                                            "mov 320(%1), %%r13\n"
                                            "add $1, %%r10\n")) "2:\n"
        : "+r"(passes)
        : "r"(data)
        : "rax", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "cc",
          "memory");
}

}  // namespace

IssueResult issue(Mix mix, std::size_t repeats, int cpu) {
    if (repeats == 0) throw std::invalid_argument("repeats: 0; at least 1");
    IssueResult result;
    result.rates.reserve(repeats);
    run_pinned(std::span<const int>(&cpu, 1), [&](const Member&) {
        alignas(64) char data[data_bytes] = {};
        for (std::size_t repeat = 0; repeat < repeats && !stop_requested(); ++repeat) {
            const std::int64_t begin = now_ns();
            chain(chain_passes);
            const std::int64_t middle = now_ns();
            std::uint64_t operations = 0;
            if (mix == Mix::typical) {
                typical(typical_passes, data);
                operations = typical_passes * typical_operations;
            } else {
                adds_and_loads(adds_and_loads_passes, data);
                operations = adds_and_loads_passes * adds_and_loads_operations;
            }
            const auto taken = static_cast<double>(now_ns() - middle);
            const double cycle = static_cast<double>(middle - begin) / (chain_passes * chained);
            result.rates.push_back(static_cast<double>(operations) * cycle / taken);
        }
    });
    check_stop();
    return result;
}

}  // namespace pagelens::probes
