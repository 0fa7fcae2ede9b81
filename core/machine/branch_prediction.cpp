#include "core/machine/branch_prediction.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <unordered_map>

namespace pagelens {

namespace {

// How many latest outcomes of conditional branches a history has: of all branches, and of the
// branch itself.
constexpr std::array<unsigned, 5> global_lengths{0, 4, 8, 16, 32};
constexpr std::array<unsigned, 2> own_lengths{6, 12};
constexpr std::size_t histories = global_lengths.size() + own_lengths.size();
// A history that comes once in more branches than this has been displaced when it comes again. (A
// TAGE predictor of 32 KiB has about as many entries.)
constexpr std::size_t remembered = 1u << 14;
using Contexts = std::array<std::uint64_t, histories>;

struct Execution {
    std::uint32_t branch = 0;   // its block
    std::uint64_t outcome = 0;  // where it went
    Contexts contexts{};        // its histories, hashed
    std::uint8_t* foreseen = nullptr;
};

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
    std::uint64_t hash = (a ^ b * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
    return hash ^ hash >> 32;
}

std::uint64_t low_bits(std::uint64_t value, unsigned bits) {
    return value & ((std::uint64_t{1} << bits) - 1);
}

// The outcomes of a branch's executions with one history.
class Seen {
  public:
    void add(std::uint64_t outcome) {
        for (Outcome& known : outcomes_) {
            if (known.count > 0 && known.outcome != outcome) continue;
            known.outcome = outcome;
            ++known.count;
            return;
        }
        ++others_;
    }

    // Returns whether the other executions foretell this one's outcome.
    [[nodiscard]] bool foretells(std::uint64_t outcome) const {
        std::uint32_t same = 0, most = 0;
        for (const Outcome& of : outcomes_) {
            if (of.count > 0 && of.outcome == outcome)
                same = of.count - 1;
            else
                most = std::max(most, of.count);
        }
        return same > most || (same == most && same > 0 && outcome % 2 == 0);
    }

    // Returns the number of executions beside one.
    [[nodiscard]] std::uint64_t others() const {
        std::uint64_t all = others_;
        for (const Outcome& of : outcomes_) all += of.count;
        return all - 1;
    }

  private:
    struct Outcome {
        std::uint64_t outcome = 0;
        std::uint32_t count = 0;
    };
    std::array<Outcome, 2> outcomes_{};
    std::uint32_t others_ = 0;
};

std::vector<Execution> executions_of(const Code& code,
                                     std::span<const std::vector<std::uint32_t>> samples,
                                     std::vector<std::vector<std::uint8_t>>& foreseen) {
    std::vector<Execution> found;
    std::unordered_map<std::uint32_t, std::uint64_t> own;
    for (std::size_t s = 0; s < samples.size(); ++s) {
        const auto& blocks = samples[s];
        std::uint64_t global = 0;
        own.clear();
        for (std::size_t i = 0; i + 1 < blocks.size(); ++i) {
            const auto instructions = code.block(blocks[i]);
            if (instructions.empty()) continue;
            const BranchKind kind = instructions.back().branch;
            if (kind != BranchKind::conditional && kind != BranchKind::indirect) continue;
            const std::uint64_t next = code.address[blocks[i + 1]];
            std::uint64_t& of_branch = own[blocks[i]];
            Execution one{blocks[i], next, {}, &foreseen[s][i]};
            for (std::size_t h = 0; h < histories; ++h) {
                const bool is_own = h >= global_lengths.size();
                const unsigned length =
                    is_own ? own_lengths[h - global_lengths.size()] : global_lengths[h];
                const std::uint64_t history = low_bits(is_own ? of_branch : global, length);
                one.contexts[h] = mixed(mixed(blocks[i], h), history);
            }
            found.push_back(one);
            const std::uint64_t end = code.address[blocks[i]] + code.bytes[blocks[i]];
            const std::uint64_t bit =
                kind == BranchKind::conditional ? next != end : mixed(next, 0) & 1;
            global = global << 1 | bit;
            of_branch = of_branch << 1 | bit;
        }
    }
    return found;
}

}  // namespace

std::vector<std::vector<std::uint8_t>> foreseen_branches(
    const Code& code, std::span<const std::vector<std::uint32_t>> samples) {
    std::vector<std::vector<std::uint8_t>> foreseen;
    for (const auto& blocks : samples) foreseen.emplace_back(blocks.size(), 1);
    const std::vector<Execution> executions = executions_of(code, samples, foreseen);

    std::unordered_map<std::uint64_t, Seen> seen;
    for (const Execution& one : executions)
        for (const std::uint64_t context : one.contexts) seen[context].add(one.outcome);
    // Predicts each execution by each history, or by a shorter one if that is too rare.
    const std::uint64_t least = std::max<std::uint64_t>(1, executions.size() / remembered);
    std::vector<std::array<bool, histories>> right(executions.size());
    std::unordered_map<std::uint32_t, std::array<std::uint32_t, histories>> hits;
    for (std::size_t e = 0; e < executions.size(); ++e) {
        const Execution& one = executions[e];
        auto& of_branch = hits[one.branch];
        for (std::size_t h = 0; h < histories; ++h) {
            const Seen& of_history = seen.at(one.contexts[h]);
            const std::size_t shorter = h == global_lengths.size() ? 0 : h - 1;
            right[e][h] = h == 0 || of_history.others() >= least ? of_history.foretells(one.outcome)
                                                                 : right[e][shorter];
            of_branch[h] += right[e][h];
        }
    }
    for (std::size_t e = 0; e < executions.size(); ++e) {
        const auto& of_branch = hits.at(executions[e].branch);
        const auto best = static_cast<std::size_t>(
            std::max_element(of_branch.begin(), of_branch.end()) - of_branch.begin());
        *executions[e].foreseen = right[e][best];
    }
    return foreseen;
}

}  // namespace pagelens
