#include "core/accesses/program.hpp"

namespace pagelens {

std::span<const std::uint8_t> Program::written() const {
    std::call_once(written_known_, [this] {
        written_.resize(pages().size());
        for_each_op(*this, [this](const Op& op) {
            if (op.kind() == OpKind::map_write) written_[op.page] = 1;
        });
    });
    return written_;
}

}  // namespace pagelens
