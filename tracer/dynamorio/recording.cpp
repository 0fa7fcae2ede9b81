#include "tracer/dynamorio/recording.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/address/units.hpp"
#include "tracer/dynamorio/state.hpp"
#include "tracer/meminfo.hpp"

namespace pagelens {

namespace {

void pass(Tracer& owner, Vcpu& vcpu, std::uint64_t address, bool store, unsigned bytes,
          AccessPlace place) {
    const auto size = load_of(std::bit_ceil(bytes));
    store ? owner.pass<true>(vcpu, address, size, place)
          : owner.pass<false>(vcpu, address, size, place);
}

// Passes an access in pieces of 8 bytes. `later` accesses come after the last one.
[[gnu::noinline]] void pass_pieces(Tracer& owner, Vcpu& vcpu, std::uint64_t address, bool store,
                                   unsigned bytes, AccessPlace place) {
    const unsigned count = pieces(bytes);
    for (unsigned piece = 0; piece < count; ++piece) {
        const unsigned size = std::min(bytes - 8 * piece, 8u);
        const AccessPlace here = place.with_later(place.later() + count - 1 - piece);
        const std::uint64_t at = address + 8 * piece;
        if (vcpu.strip.hides(at, store, line_bytes - size, here.later())) continue;
        pass(owner, vcpu, at, store, size, here);
    }
}

// An operand of which time has passed for all pieces. Whether it is a store is no branch: the order
// of loads and stores in a block is hard to foresee.
[[gnu::always_inline]] inline void touch(Tracer& owner, Vcpu& vcpu, std::uint64_t address,
                                         bool store, unsigned bytes, AccessPlace place) {
    if (vcpu.strip.hides(address, store, line_bytes - bytes, place.later())) [[likely]]
        return;
    if (bytes > 8) return pass_pieces(owner, vcpu, address, store, bytes, place);
    pass(owner, vcpu, address, store, bytes, place);
}

template <bool store>
std::uint64_t pass_line(Tracer* tracer, Vcpu* vcpu, std::uint64_t address,
                        qemu_plugin_meminfo_t info, AccessPlace place) {
    tracer->pass<store>(*vcpu, address, info, place);
    return vcpu->strip.place_of(address);
}

}  // namespace

ThreadRecording::ThreadRecording(Tracer& owner, const RecordedBlocks& blocks, unsigned index,
                                 ThreadSlots& slots)
    : tracer_(owner), blocks_(blocks), index_(index), vcpu_(Tracer::vcpu(index)), slots_(slots) {
    slots_ = {words_, words_ + capacity - block_limit, 0};
}

void ThreadRecording::drain() {
    const std::uint64_t* at = words_;
    const std::uint64_t* const end = slots_.next;
    *slots_.next = 0;
    if (stage == Stage::tracing) {
        at = blocks_.code().run(*this, vcpu_, at);
        if (at < end) word(at) = hidden_number_;
    }
    while (at < end) {
        if (is_loop_word(*at) || blocks_[*at].loop) {
            at = execute_loop(at);
            continue;
        }
        const RecordedBlock& block = blocks_[*at];
        execute(block, at + 1);
        at += 1 + block.words;
    }
    slots_.next = words_;
    if (stage == Stage::finishing) tracer_.stop_recording(vcpu_);
}

const std::uint64_t* ThreadRecording::execute(const std::uint64_t* at) {
    const RecordedBlock& block = blocks_[*at];
    if (block.loop) {
        if (block.traced) {
            block.count_run();
            if (blocks_.code().count(*at, block, iterations(at))) {
                if (block.is_short()) record_as_block(block.begin);
                return at;  // it has code now
            }
        }
        const std::uint64_t* const next = execute_loop(at);
        leave_code_at(next);
        return next;
    }
    if (block.traced) blocks_.code().count(*at, block, 1);
    execute(block, at + 1);
    leave_code_after(at);
    return at + 1 + block.words;
}

// Of the loop that begins at `at`.
std::uint64_t ThreadRecording::iterations(const std::uint64_t* at) const {
    const RecordedBlock& loop = blocks_[*at];
    if (loop.counter != no_word) {
        const std::uint64_t first = at[1 + loop.counter], last = at[2 + loop.steady_words()];
        return static_cast<std::uint64_t>(static_cast<std::int64_t>(last - first) /
                                          loop.strides[loop.counter]) +
               1;
    }
    if (loop.counts()) return loop_word(*at) - at[1 + loop.steady_words()];
    std::uint64_t count = 0;
    for (at += 1 + loop.steady_words(); is_loop_word(*at); at += loop.loop_words()) ++count;
    return count;
}

// Executes a loop from its beginning, or from an iteration on; returns where its words end.
const std::uint64_t* ThreadRecording::execute_loop(const std::uint64_t* at) {
    const std::uint64_t number = is_loop_word(*at) ? loop_number(*at) : *at;
    const RecordedBlock& loop = blocks_[number];
    const std::size_t steady = loop.steady_words(), others = loop.other_words();
    std::uint64_t count = 1;
    if (!is_loop_word(*at)) {
        if (loop.counts()) count = iterations(at);
        std::copy_n(at + 1, steady, next_values.begin());
        at += 1 + steady;
    }
    while (is_loop_word(*at)) {
        std::copy_n(at + 1, others, next_values.begin() + steady);
        for (; count > 0; --count) {
            execute(loop, next_values.data());
            for (std::size_t i = 0; i < steady; ++i)
                next_values[i] += static_cast<std::uint64_t>(loop.strides[i]);
        }
        at += loop.loop_words();
        if (loop.counts()) break;
        count = 1;
    }
    return at;
}

const DrainFunctions ThreadRecording::functions{
    .pass_load = pass_line<false>,
    .pass_store = pass_line<true>,
    .pass_pieces =
        [](ThreadRecording* self, const std::uint64_t*, std::uint64_t address,
           const RecordedAccess* access) {
            pass_pieces(self->tracer_, self->vcpu_, address,
                        access->kind == RecordedAccess::Kind::store, access->bytes, access->place);
            return self->vcpu_.strip.place_of(address);
        },
    .other_access =
        [](ThreadRecording* self, const std::uint64_t* at, std::uint64_t,
           const RecordedAccess* access) {
            self->other_access(*access, at + 1);
            self->leave_code_after(at);
        },
    .look =
        [](ThreadRecording* self, const std::uint64_t* at) {
            self->tracer_.look(self->vcpu_, self->blocks_[*at].code);
            self->leave_code_after(at);
        },
    .look_in_loop = [](ThreadRecording* self, const std::uint64_t* at, std::uint64_t,
                       const RecordedBlock* loop) { self->look(at, *loop); },
    .branch = [](ThreadRecording* self,
                 const std::uint64_t* at) { self->branch(self->blocks_[*at], at + 1); },
    .execute = [](ThreadRecording* self, const std::uint64_t* at) { return self->execute(at); },
};

// The code of blocks is for the stage `tracing` alone.
void ThreadRecording::leave_code_at(const std::uint64_t* next) {
    if (stage == Stage::tracing) return;
    std::uint64_t& number = word(next);
    if (number != 0) hidden_number_ = std::exchange(number, 0);
}

// Looks at the thread where an iteration begins. If that ends the tracing, the iteration is the
// last one that the code works through.
void ThreadRecording::look(const std::uint64_t* at, const RecordedBlock& loop) {
    tracer_.look(vcpu_, loop.code);
    if (stage == Stage::tracing) return;
    if (loop.counts()) {
        slots_.untraced += (iterations_left - 1) * loop.instructions;
        iterations_left = 1;
    }
    leave_code_at(at + loop.loop_words());
}

void ThreadRecording::execute(const RecordedBlock& block, const std::uint64_t* values) {
    if (block.traced && stage == Stage::tracing) {
        trace(block, values);
    } else if (stage != Stage::tracing) {  // the interposer's instructions are no program's
        slots_.untraced += block.instructions;
        if (block.traced && stage == Stage::skipping && skips(block, values)) go_to(Stage::tracing);
    }
    branch(block, values);
}

void ThreadRecording::branch(const RecordedBlock& block, const std::uint64_t* values) {
    if (block.branch == Branch::none || vcpu_.thread == nullptr) return;
    const std::uint64_t slot = block.address(block.stack, values);
    if (block.branch == Branch::call) {
        vcpu_.thread->stack.call(block.return_address, slot);
        if (!vcpu_.thread->stack_known) tracer_.know_stack(vcpu_, slot);
    } else {
        vcpu_.thread->stack.ret(slot);
    }
}

void ThreadRecording::trace(const RecordedBlock& block, const std::uint64_t* values) {
    vcpu_.strip.advance(block.certain);
    vcpu_.left -= block.instructions;
    if (vcpu_.left < 0) [[unlikely]]
        tracer_.look(vcpu_, block.code);
    for (const RecordedAccess& access : block.accesses) {
        if (access.kind <= RecordedAccess::Kind::store) [[likely]] {
            touch(tracer_, vcpu_, block.address(access, values),
                  access.kind == RecordedAccess::Kind::store, access.bytes, access.place);
        } else {
            other_access(access, values);
        }
    }
}

void ThreadRecording::other_access(const RecordedAccess& access, const std::uint64_t* values) {
    if (access.kind != RecordedAccess::Kind::stream_store) return string_operation(access, values);
    const std::uint64_t address = RecordedBlock::address(access, values);
    for (unsigned piece = 0; piece < access.bytes; piece += 8)
        stream_store(address + piece, access.place);
}

void ThreadRecording::stream_store(std::uint64_t address, AccessPlace place) {
    vcpu_.strip.advance(1);
    tracer_.stream_store(vcpu_, address, place);
}

// The words are the operation's count, where it reads, and where it writes.
void ThreadRecording::string_operation(const RecordedAccess& access, const std::uint64_t* values) {
    const std::uint64_t count = values[access.word];
    const std::uint64_t from = values[access.word + 1], to = values[access.word + 2];
    const unsigned size = access.bytes;
    vcpu_.string = {.since_look = vcpu_.string.since_look};
    const bool loads = access.kind != RecordedAccess::Kind::rep_stos;
    const bool stores = access.kind != RecordedAccess::Kind::rep_lods;
    // Elements before the next line begins, where `at` is within one.
    const auto rest_of_line = [size](std::uint64_t at) {
        return at % line_bytes == 0 ? 0 : (line_bytes - at % line_bytes) / size;
    };
    for (std::uint64_t i = 0; i < count && stage == Stage::tracing;) {
        if (loads) string_element(from + i * size, false, size, access.place);
        if (stores) string_element(to + i * size, true, size, access.place);
        ++i;
        // Accesses that stay in these lines are hidden, and leave their order as it is.
        std::uint64_t more = count - i;
        if (loads) more = std::min(more, rest_of_line(from + i * size));
        if (stores) more = std::min(more, rest_of_line(to + i * size));
        const std::uint64_t made = more * (loads && stores ? 2 : 1);
        vcpu_.strip.advance(made);
        vcpu_.same_line += made;
        i += more;
    }
}

void ThreadRecording::string_element(std::uint64_t address, bool store, unsigned bytes,
                                     AccessPlace place) {
    const std::uint64_t before = vcpu_.strip.accesses();
    access(address, store, bytes, place);
    tracer_.string_access(vcpu_, address, store, bytes, vcpu_.strip.accesses() - before);
}

void ThreadRecording::access(std::uint64_t address, bool store, unsigned bytes, AccessPlace place) {
    vcpu_.strip.advance(pieces(bytes));
    touch(tracer_, vcpu_, address, store, bytes, place);
}

bool ThreadRecording::skips(const RecordedBlock& block, const std::uint64_t* values) {
    std::uint64_t made = block.certain;
    for (const RecordedAccess& access : block.accesses) {
        if (access.kind <= RecordedAccess::Kind::store) continue;
        if (access.kind == RecordedAccess::Kind::stream_store) {
            made += pieces(access.bytes);
        } else {  // one for each line
            const unsigned sides = access.kind == RecordedAccess::Kind::rep_movs ? 2 : 1;
            made += sides * (values[access.word] * access.bytes + line_bytes - 1) / line_bytes;
        }
    }
    const auto count = static_cast<std::int64_t>(made);
    return to_skip.fetch_sub(count, std::memory_order_relaxed) <= count;
}

}  // namespace pagelens
