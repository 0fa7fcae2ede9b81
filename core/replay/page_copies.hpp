// How many frames the lines of each page come from while copies of a program run: one for each
// copy, one that all of them share, or none.
#pragma once

#include <cstdint>
#include <vector>

#include "core/accesses/op.hpp"

namespace pagelens {

class PageCopies {
  public:
    PageCopies(std::size_t pages, std::uint32_t ranks)
        : ranks_(ranks), copies_(pages), shared_(pages) {}

    // Keeps up with the program, op by op. True: the page has got frames that it had not.
    bool step(const Op& op) {
        switch (op.kind()) {
            case OpKind::map_write: {
                const bool had = copies_[op.page] != 0 && !shared_[op.page];
                copies_[op.page] = ranks_;
                shared_[op.page] = false;
                return !had;
            }
            case OpKind::map_read:
                if (op.lines == 0 || copies_[op.page] != 0) return false;
                copies_[op.page] = 1;
                shared_[op.page] = true;
                return true;
            case OpKind::unmap:
                for (std::uint64_t page = op.page; page < op.page + op.lines; ++page) {
                    copies_[page] = 0;
                    shared_[page] = false;
                }
                return false;
            default:
                return false;
        }
    }
    // 0: the zero page, which no replay has.
    [[nodiscard]] std::uint32_t of(std::uint32_t page) const { return copies_[page]; }

  private:
    std::uint32_t ranks_;
    std::vector<std::uint32_t> copies_;  // [page]
    std::vector<bool> shared_;           // [page] it shows a file
};

}  // namespace pagelens
