// The lines that a program used last, in the order of their last use: what a cache with LRU holds.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/accesses/op.hpp"
#include "core/address/units.hpp"

namespace pagelens {

// A log of ops, from which older uses of lines that were used again are dropped now and then. So a
// use costs the same time however often its line is used, and memory is bounded by `most`.
class RecentLines {
  public:
    // Remembers so many lines of so many pages. Threads of different `groups` [thread] have no
    // cache in common, so a line that one used last is not dirty because another one wrote to it;
    // empty: all have.
    RecentLines(std::size_t pages, std::uint64_t most, std::vector<std::uint32_t> groups = {})
        : most_(most), groups_(std::move(groups)), known_(pages) {}

    // Caches have the lines of a fetch or a write-back from now on.
    void use(const Op& op) { add(op); }
    // They have no line of it any more, because they are stored past the caches.
    void forget(const Op& op) { add(make_op(OpKind::stream_store, op.page, op.lines)); }
    // They have no line of these pages any more.
    void forget_pages(std::uint32_t first, std::uint64_t count) {
        add(make_op(OpKind::unmap, first, count));
    }

    // Calls visit(op) with the lines, oldest first, each in the op that used it last. A write-back
    // names lines that are dirty: they were written since so many lines were used.
    template <class Visit>
    void for_each(Visit&& visit) {
        drop_older_uses();
        for (const Op& op : log_) visit(op);
    }
    // The same of the lines whose last use is later than the last mark().
    template <class Visit>
    void for_each_since_mark(Visit&& visit) {
        drop_older_uses();
        for (const Op& op : std::span(log_).subspan(mark_)) visit(op);
    }
    void mark() { mark_ = log_.size(); }

  private:
    // What later ops say of a page's lines, while the log is read backwards.
    struct Known {
        std::uint64_t used = 0, forgotten = 0, written = 0, dirty = 0;
        std::uint32_t number = 0;  // of the page in pages_
    };
    using OfLines = std::array<std::uint32_t, lines_per_page>;

    void add(const Op& op) {
        if (log_.size() >= full_) drop_older_uses();
        log_.push_back(op);
    }

    void drop_older_uses() {
        newest_.clear();
        std::uint64_t lines = 0;
        const auto marked = log_.rend() - static_cast<std::ptrdiff_t>(mark_);
        std::size_t since_mark = 0;  // of newest_
        for (auto op = log_.rbegin(); op != log_.rend() && lines < most_; ++op) {
            if (op->kind() == OpKind::unmap) {
                for (std::uint64_t page = op->page; page < op->page + op->lines; ++page)
                    known(static_cast<std::uint32_t>(page)).forgotten = ~0ull;
                continue;
            }
            Known& later = known(op->page);
            const std::uint64_t newest = op->lines & ~later.used & ~later.forgotten;
            if (op->kind() == OpKind::stream_store) {
                later.forgotten |= op->lines;
                continue;
            }
            if (newest != 0) {
                lines += static_cast<unsigned>(std::popcount(newest));
                later.used |= newest;
                newest_.push_back(*op);
                newest_.back().lines = newest;
                if (op < marked) since_mark = newest_.size();
                if (!groups_.empty()) {
                    for_each_line(newest, [&](unsigned line) {
                        last_user_[later.number][line] = groups_[op->thread];
                    });
                }
            }
            if (op->kind() == OpKind::write_back) write(*op, later);
        }
        log_.clear();
        std::size_t left = newest_.size();
        for (auto op = newest_.rbegin(); op != newest_.rend(); ++op) {
            if (left-- == since_mark) mark_ = log_.size();
            const std::uint64_t dirty = known_[op->page].dirty;
            keep(*op, OpKind::fetch, op->lines & ~dirty);
            keep(*op, OpKind::write_back, op->lines & dirty);
        }
        if (since_mark == 0) mark_ = log_.size();
        full_ = std::max(least_full, 2 * log_.size());
        for (const std::uint32_t page : pages_) known_[page] = {};
        pages_.clear();
        last_user_.clear();
    }

    // The last write to a line decides whether it is dirty where it was used last.
    void write(const Op& op, Known& later) {
        const std::uint64_t lines = op.lines & later.used & ~later.forgotten & ~later.written;
        later.written |= lines;
        if (groups_.empty()) {
            later.dirty |= lines;
            return;
        }
        for_each_line(lines, [&](unsigned line) {
            if (last_user_[later.number][line] == groups_[op.thread])
                later.dirty |= std::uint64_t{1} << line;
        });
    }
    template <class Visit>
    static void for_each_line(std::uint64_t lines, Visit&& visit) {
        for (; lines != 0; lines &= lines - 1)
            visit(static_cast<unsigned>(std::countr_zero(lines)));
    }

    void keep(Op op, OpKind kind, std::uint64_t lines) {
        if (lines == 0) return;
        op.lines = lines;
        op.kind_bits = static_cast<unsigned>(kind) & 0xf;
        log_.push_back(op);
    }

    Known& known(std::uint32_t page) {
        Known& of_page = known_[page];
        if ((of_page.used | of_page.forgotten) == 0) {
            of_page.number = static_cast<std::uint32_t>(pages_.size());
            pages_.push_back(page);
            if (!groups_.empty()) last_user_.emplace_back();
        }
        return of_page;
    }

    static constexpr std::size_t least_full = 1u << 16;

    std::uint64_t most_;
    std::vector<std::uint32_t> groups_;
    std::vector<Op> log_, newest_;
    std::size_t mark_ = 0;  // in log_
    std::size_t full_ = least_full;
    std::vector<Known> known_;          // [page]
    std::vector<std::uint32_t> pages_;  // of which something is known
    std::vector<OfLines> last_user_;    // [number] the group that used a line last
};

}  // namespace pagelens
