// The one interface between the sources of accesses (trace, declared sweeps) and their replay.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/accesses/line_sharing.hpp"
#include "core/accesses/op.hpp"
#include "core/address/units.hpp"

namespace pagelens {

// Bits of a page number that lie within an address space: 48 bits of an address, as page tables of
// four levels have. Those above say which address space it is, where a program has several.
inline constexpr unsigned space_shift = 36;

// A cursor over the ops of a program. Batches stay valid until the next call; an empty batch ends.
class Cursor {
  public:
    virtual ~Cursor() = default;
    virtual std::span<const Op> next() = 0;
    // Returns about which share of the ops, from 0 to 1, has been given already.
    [[nodiscard]] virtual float done() const { return 0; }

    // Returns whether skim() is much faster than next().
    [[nodiscard]] virtual bool skims() const { return false; }
    // Replaces next(): returns ops that move as many lines in all as those of next(), and that give
    // and take the same pages in the same order. They may move other lines, in another order.
    virtual std::span<const Op> skim() { return next(); }
    // Returns what next() would have returned instead of the last skim(). Precondition: skims().
    virtual std::span<const Op> in_full() { return {}; }
};

struct VirtualRange {  // [begin, end)
    VirtualPage begin, end;
};

// Immutable, shared by all threads that replay it; every replay opens a cursor of its own.
class Program {
  public:
    virtual ~Program() = default;
    [[nodiscard]] virtual std::unique_ptr<Cursor> open() const = 0;

    // Dense page index -> virtual page number, ascending where the pages are neighbours.
    [[nodiscard]] virtual std::span<const VirtualPage> pages() const = 0;
    // Address spaces, one for each process (core/accesses/job.hpp).
    [[nodiscard]] virtual unsigned spaces() const { return 1; }
    // Pages that show a file, as code and initialised data do, by address. Large pages lie in
    // anonymous memory, so none reaches into these.
    [[nodiscard]] virtual std::span<const VirtualRange> file_pages() const { return {}; }
    // Pages for which the program asks for large pages (MADV_HUGEPAGE), by address.
    [[nodiscard]] virtual std::span<const VirtualRange> advised_pages() const { return {}; }
    [[nodiscard]] virtual unsigned objects() const = 0;
    [[nodiscard]] virtual unsigned phases() const = 0;  // >= 1; 0 is "before any marker"
    [[nodiscard]] virtual unsigned threads() const = 0;
    // Instructions executed, [phase * threads() + thread]; the core's share of the time model.
    [[nodiscard]] virtual std::span<const std::uint64_t> instructions() const = 0;
    // Returns how often threads took lines from each other, sorted; only of a trace of several
    // threads that was compiled with all its lines in order.
    [[nodiscard]] virtual std::vector<TakenLines> taken_lines() const { return {}; }

    struct PageUse {
        bool written = false;     // ever
        bool shows_file = false;  // at some time, while it is only read
    };
    // Returns the use of each [page]. It is found once, by a pass over the ops.
    [[nodiscard]] std::span<const PageUse> page_uses() const;

  private:
    mutable std::once_flag uses_known_;
    mutable std::vector<PageUse> uses_;
};

// Calls visit(op) for each op of the program, in order.
template <class Visit>
void for_each_op(const Program& program, Visit&& visit) {
    const auto cursor = program.open();
    for (auto ops = cursor->next(); !ops.empty(); ops = cursor->next()) {
        for (const Op& op : ops) visit(op);
    }
}

// Does the same if only some ops matter: batches for which skips(batch) is true are only skimmed.
template <class Skips, class Visit>
void for_some_ops(const Program& program, Skips&& skips, Visit&& visit) {
    const auto cursor = program.open();
    for (auto ops = cursor->skim(); !ops.empty(); ops = cursor->skim()) {
        if (cursor->skims() && !skips(ops)) ops = cursor->in_full();
        for (const Op& op : ops) visit(op);
    }
}

}  // namespace pagelens
