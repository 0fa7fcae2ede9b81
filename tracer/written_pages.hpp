// The pages that the program has written since it got them. A bit for each, in tables of 1 GiB of
// addresses that are made when they are needed.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace pagelens {

class WrittenPages {
  public:
    ~WrittenPages() {
        for (auto& table : tables_) delete table.load(std::memory_order_relaxed);
    }

    // Returns whether nobody had written the page before. From any thread.
    bool write(std::uint64_t page) {
        if (page >= pages) return false;
        std::atomic<std::uint64_t>& word = table(page / table_pages)[page % table_pages / 64];
        const std::uint64_t bit = std::uint64_t{1} << page % 64;
        if ((word.load(std::memory_order_relaxed) & bit) != 0) return false;
        return (word.fetch_or(bit, std::memory_order_relaxed) & bit) == 0;
    }

    // These pages lost their frames.
    void forget(std::uint64_t page, std::uint64_t count) {
        const std::uint64_t end = std::min(page + count, pages);
        while (page < end) {
            const std::uint64_t next = std::min((page / 64 + 1) * 64, end);
            Table* const known = tables_[page / table_pages].load(std::memory_order_acquire);
            if (known == nullptr) {
                page = (page / table_pages + 1) * table_pages;
                continue;
            }
            const std::uint64_t below = ~std::uint64_t{0} >> (64 - (next - page));
            (*known)[page % table_pages / 64].fetch_and(~(below << page % 64),
                                                        std::memory_order_relaxed);
            page = next;
        }
    }

  private:
    static constexpr std::uint64_t pages = std::uint64_t{1} << 35;  // of a program's addresses
    static constexpr std::uint64_t table_pages = std::uint64_t{1} << 18;
    using Table = std::array<std::atomic<std::uint64_t>, table_pages / 64>;

    Table& table(std::uint64_t number) {
        std::atomic<Table*>& place = tables_[number];
        Table* known = place.load(std::memory_order_acquire);
        if (known != nullptr) return *known;
        auto made = std::make_unique<Table>();
        if (place.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
            return *made.release();
        return *known;
    }

    std::array<std::atomic<Table*>, pages / table_pages> tables_{};
};

}  // namespace pagelens
