// The ops of a compiled trace, as they are made and as they are replayed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/accesses/compiled_trace.hpp"

namespace pagelens::detail {

// Grows without moving what it holds.
class OpList {
  public:
    static constexpr std::size_t block_ops = 1u << 16;

    void push_back(const Op& op) {
        if (blocks_.empty() || blocks_.back().size() == block_ops) {
            // The first block grows by itself: programs may be small.
            blocks_.emplace_back().reserve(blocks_.size() > 1 ? block_ops : 0);
        }
        blocks_.back().push_back(op);
        ++size_;
    }
    [[nodiscard]] std::size_t size() const { return size_; }
    Op& operator[](std::size_t i) { return blocks_[i / block_ops][i % block_ops]; }
    [[nodiscard]] const std::vector<std::vector<Op>>& blocks() const { return blocks_; }

    void truncate(std::size_t size) {
        size_ = size;
        blocks_.resize((size + block_ops - 1) / block_ops);
        if (size % block_ops != 0) blocks_.back().resize(size % block_ops);
        if (!blocks_.empty()) blocks_.back().shrink_to_fit();
    }

  private:
    std::vector<std::vector<Op>> blocks_;
    std::size_t size_ = 0;
};

inline bool is_of_lines(OpKind kind) { return kind <= OpKind::touch; }

class OpsInMemory final : public CompiledTrace {
  public:
    OpList list;
    std::vector<VirtualPage> virtual_pages;
    std::vector<VirtualRange> file_ranges, advised_ranges;
    unsigned object_count = 0;
    std::vector<unsigned> phases_of_intervals;
    unsigned thread_count = 1;
    std::vector<std::uint64_t> instruction_counts;  // [phase or interval * threads + thread]
    std::uint64_t line_count = 0;
    std::vector<std::string> texts;
    SampleCounts sample_counts;
    std::vector<TakenLines> taken;

    [[nodiscard]] std::unique_ptr<Cursor> open() const override {
        return std::make_unique<BlockCursor>(list);
    }
    [[nodiscard]] std::span<const VirtualPage> pages() const override { return virtual_pages; }
    [[nodiscard]] std::span<const VirtualRange> file_pages() const override { return file_ranges; }
    [[nodiscard]] std::span<const VirtualRange> advised_pages() const override {
        return advised_ranges;
    }
    [[nodiscard]] unsigned objects() const override { return object_count; }
    [[nodiscard]] unsigned phases() const override {
        return static_cast<unsigned>(instruction_counts.size() / thread_count);
    }
    [[nodiscard]] unsigned threads() const override { return thread_count; }
    [[nodiscard]] std::span<const std::uint64_t> instructions() const override {
        return instruction_counts;
    }
    [[nodiscard]] std::vector<TakenLines> taken_lines() const override { return taken; }
    [[nodiscard]] std::uint64_t ops() const override { return list.size(); }
    [[nodiscard]] std::uint64_t lines() const override { return line_count; }
    [[nodiscard]] const std::vector<std::string>& warnings() const override { return texts; }
    [[nodiscard]] const std::vector<unsigned>& interval_phases() const override {
        return phases_of_intervals;
    }
    [[nodiscard]] const SampleCounts& sampled() const override { return sample_counts; }

  private:
    class BlockCursor final : public Cursor {
      public:
        explicit BlockCursor(const OpList& list) : list_(list) {}
        std::span<const Op> next() override {
            if (block_ == list_.blocks().size()) return {};
            return list_.blocks()[block_++];
        }
        [[nodiscard]] float done() const override {
            return static_cast<float>(block_) /
                   static_cast<float>(std::max<std::size_t>(list_.blocks().size(), 1));
        }

      private:
        const OpList& list_;
        std::size_t block_ = 0;
    };
};

}  // namespace pagelens::detail
