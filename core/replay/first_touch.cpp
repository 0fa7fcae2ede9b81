#include "core/replay/first_touch.hpp"

#include <algorithm>
#include <bit>

namespace pagelens {

FirstTouch first_touch(const Program& program, std::span<const std::uint8_t> node_of_thread) {
    constexpr std::uint16_t nobody = 0xffff;
    const std::size_t pages = program.pages().size();
    FirstTouch found{std::vector<std::uint16_t>(pages, nobody), std::vector<std::uint16_t>(pages),
                     std::vector<std::uint64_t>(program.objects()), 0};
    std::vector<std::uint16_t> toucher(pages, nobody);
    std::vector<bool> handed_over(pages);
    std::vector<std::uint32_t> votes(pages);  // for found.user
    const auto touch = [&](const Op& op) {
        if (toucher[op.page] != nobody) return;
        toucher[op.page] = op.thread;
        if (found.user[op.page] != nobody) return;  // it has been used before, and was given back
        found.user[op.page] = op.thread;
        found.object[op.page] = op.object;
    };
    const auto use = [&](const Op& op) {
        const auto lines = static_cast<std::uint32_t>(std::popcount(op.lines));
        found.lines += lines;
        if (toucher[op.page] == nobody) return;
        const std::uint16_t thread = op.thread;
        if (node_of_thread[thread] != node_of_thread[toucher[op.page]])
            found.far_lines[op.object] += lines;
        if (thread != toucher[op.page]) handed_over[op.page] = true;
        if (!handed_over[op.page]) return;
        std::uint32_t& vote = votes[op.page];
        if (thread == found.user[op.page]) {
            vote += lines;
        } else if (vote > lines) {
            vote -= lines;
        } else {
            vote = lines - vote;
            if (vote != 0) found.user[op.page] = thread;
        }
    };
    for_each_op(program, [&](const Op& op) {
        switch (op.kind()) {
            case OpKind::map_write:
            case OpKind::map_read:
                return touch(op);
            case OpKind::fetch:
            case OpKind::write_back:
            case OpKind::stream_store:
                return use(op);
            case OpKind::unmap:
                std::fill_n(toucher.begin() + op.page, op.lines, nobody);
                return;
            case OpKind::touch:
            case OpKind::phase:
            case OpKind::skip:
            case OpKind::recall:
            case OpKind::recall_dirty:
            case OpKind::meet:
            case OpKind::hint_fault:
            case OpKind::swap_threads:
                return;
        }
    });
    for (std::uint16_t& user : found.user)
        if (user == nobody) user = 0;
    return found;
}

}  // namespace pagelens
