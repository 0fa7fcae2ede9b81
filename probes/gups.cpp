#include "probes/gups.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <stdexcept>
#include <string>

#include "probes/stop.hpp"

namespace pagelens::probes {
namespace {

constexpr std::uint64_t polynomial = 7;  // x^64 = x^2 + x + 1 over GF(2), HPCC's POLY
constexpr std::size_t page_words = 512;

std::uint64_t next(std::uint64_t r) { return r << 1 ^ ((r >> 63) != 0 ? polynomial : 0); }

// r squared as a polynomial, modulo the register's: number 2 n of number n.
std::uint64_t squared(std::uint64_t r) {
    std::uint64_t result = 0, power = 1;  // x^(2 i) at bit i
    for (; r != 0; r >>= 1, power = next(next(power))) {
        if ((r & 1) != 0) result ^= power;
    }
    return result;
}

constexpr std::size_t registers = 128;
constexpr std::uint64_t rounds_between_looks = 1 << 13;  // a million updates, some 10 ms

// Calls update(number) for all: by a register for each of 128 parts of the sequence as HPCC's code
// has it, for of one register alone each word lies at twice the place of the word before. The words
// of a round are fetched during the round before: 255 updates ahead at most.
template <class Update>
void run(std::span<const std::uint64_t> table, std::uint64_t first, std::uint64_t updates,
         Update update) {
    const std::uint64_t rounds = updates / registers;
    std::array<std::uint64_t, registers> now, after;
    for (std::size_t r = 0; r < registers; ++r) now[r] = gups_number(first + r * rounds + 1);
    for (std::uint64_t round = 0; round < rounds; ++round) {
        if (round % rounds_between_looks == 0 && stop_requested()) return;
        for (std::size_t r = 0; r < registers; ++r) after[r] = next(now[r]);
        for (std::size_t r = 0; r < registers; ++r) {
            __builtin_prefetch(&table[after[r] & (table.size() - 1)], 1);
            update(now[r]);
        }
        now = after;
    }
}

void check(std::size_t table_bytes, std::uint64_t updates) {
    if (!std::has_single_bit(table_bytes) || table_bytes < least_gups_table) {
        throw std::invalid_argument("table_bytes: " + std::to_string(table_bytes) +
                                    "; a power of two from " + std::to_string(least_gups_table));
    }
    if (updates == 0 || updates % registers != 0) {
        throw std::invalid_argument("updates: " + std::to_string(updates) +
                                    "; a multiple of 128, such as 4 for each word");
    }
}

bool of_half_the_memory(std::size_t table_bytes) {
    const auto pages = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES));
    const std::size_t half = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / 2;
    return table_bytes == std::bit_floor(half);
}

}  // namespace

std::uint64_t gups_number(std::uint64_t n) {
    std::uint64_t r = 1;
    for (auto bit = static_cast<unsigned>(std::bit_width(n)); bit > 0; --bit) {
        r = squared(r);
        if ((n >> (bit - 1) & 1) != 0) r = next(r);
    }
    return r;
}

Member::Part gups_part(const Member& member, std::uint64_t updates) {
    return member.part_of(updates, registers);
}

void gups_update(std::span<std::uint64_t> table, std::uint64_t first, std::uint64_t updates,
                 bool exact) {
    const std::size_t last = table.size() - 1;
    if (exact) {
        run(table, first, updates, [&](std::uint64_t r) {
            std::atomic_ref(table[r & last]).fetch_xor(r, std::memory_order_relaxed);
        });
        return;
    }
    run(table, first, updates, [&](std::uint64_t r) {  // relaxed atomic accesses are plain moves
        const std::atomic_ref word(table[r & last]);
        word.store(word.load(std::memory_order_relaxed) ^ r, std::memory_order_relaxed);
    });
}

GupsResult gups(const Memory& memory, std::size_t table_bytes, std::uint64_t updates,
                std::span<const int> cpus) {
    check(table_bytes, updates);
    const Memory::Use use(memory);
    const std::size_t words = table_bytes / sizeof(std::uint64_t);
    const std::span table(use.at<std::uint64_t>(0, words, "table_bytes"), words);

    run_pinned(cpus, [&](const Member& member) {
        const auto [begin, end] = member.part_of(words, page_words);
        for (std::size_t i = begin; i < end; ++i) table[i] = i;
    });
    const auto update_part = [&](const Member& member, bool exact) {
        const auto [begin, end] = gups_part(member, updates);
        gups_update(table, begin, end - begin, exact);
    };
    const Times times = timed(cpus, 1, [&](const Member& member) { update_part(member, false); });
    std::atomic<std::uint64_t> errors{0};
    run_pinned(cpus, [&](const Member& member) {
        update_part(member, true);
        member.barrier.wait();
        const auto [begin, end] = member.part_of(words, page_words);
        std::uint64_t wrong = 0;
        for (std::size_t i = begin; i < end; ++i) wrong += table[i] != i;
        errors += wrong;
    });
    check_stop();
    const bool official =
        of_half_the_memory(table_bytes) && updates == 4 * words && errors <= words / 100;
    return {times.slowest()[0], updates, errors, official};
}

}  // namespace pagelens::probes
