#include "core/machine/pipeline.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <queue>
#include <unordered_map>
#include <vector>

#include "core/machine/wrong_paths.hpp"

namespace pagelens {

namespace {

using Cycle = std::uint64_t;

// Knows when each port is taken. An instruction may take a port earlier than one before it did.
class PortUse {
  public:
    PortUse() : taken_(ring), of_(ring) {}

    // Returns the first cycle from `ready` on in which one of `ports` is free; the one that has
    // been used least is taken.
    Cycle take(Cycle ready, Ports ports) {
        if (ports == 0) return ready;
        Ports free = ports & ~taken(ready);
        while (free == 0) free = ports & ~taken(++ready);
        Ports best = free & -free;
        for (Ports rest = free & (free - 1); rest != 0; rest &= rest - 1)
            if (uses_[number(rest)] < uses_[number(best)]) best = rest & -rest;
        taken(ready) |= best;
        ++uses_[number(best)];
        return ready;
    }

  private:
    static constexpr std::size_t ring = 1u << 14;

    static std::size_t number(Ports ports) {
        return static_cast<std::size_t>(std::countr_zero(ports));
    }

    // Returns the ports taken in a cycle. Those of cycles more than the ring's length behind are
    // forgotten.
    Ports& taken(Cycle at) {
        const std::size_t place = at % ring;
        if (of_[place] != at) {
            of_[place] = at;
            taken_[place] = 0;
        }
        return taken_[place];
    }

    std::vector<Ports> taken_;
    std::vector<Cycle> of_;
    std::array<std::uint64_t, port_numbers> uses_{};
};

// Instructions that wait in a scheduler, until each has its port.
class Scheduler {
  public:
    explicit Scheduler(unsigned entries) : entries_(entries) {}

    // Returns when there is room, from `at` on.
    Cycle room(Cycle at) {
        while (!leave_.empty() && leave_.top() <= at) leave_.pop();
        while (leave_.size() >= entries_) {
            at = std::max(at, leave_.top());
            leave_.pop();
        }
        return at;
    }

    void enter(Cycle leaves) { leave_.push(leaves); }

  private:
    std::size_t entries_;
    std::priority_queue<Cycle, std::vector<Cycle>, std::greater<>> leave_;
};

// Admits so many in each cycle, in order.
class InOrder {
  public:
    explicit InOrder(unsigned width) : width_(width) {}

    Cycle take(Cycle ready, unsigned slots) {
        if (ready > at_) {
            at_ = ready;
            used_ = 0;
        }
        if (used_ + slots > width_) {
            ++at_;
            used_ = 0;
        }
        used_ += slots;
        return at_;
    }

    [[nodiscard]] Cycle at() const { return at_; }

  private:
    unsigned width_, used_ = 0;
    Cycle at_ = 0;
};

// What is known of a register's value: it is the value numbered `of`, an earlier one, plus a
// constant.
struct Value {
    std::uint64_t of = 0;
    std::int64_t plus = 0;
};

class Pipeline {
  public:
    explicit Pipeline(const PipelineShape& shape)
        : shape_(shape),
          scheduler_(shape.scheduler),
          vector_scheduler_(shape.vector_scheduler),
          dispatch_(shape.width),
          retire_(shape.retire_width),
          left_(std::max(1u, shape.window), 0),
          given_back_(shape.integer_results, 0),
          answered_(std::max(1u, shape.outstanding), 0) {
        for (std::size_t i = 0; i < code_registers; ++i) values_[i].of = ++value_;
        values_[nothing] = {};
    }

    // Returns when the instruction leaves the window. `extra`: cycles of its load beyond a hit of
    // L1. `arrives`: when a wrong path has fetched its line already, or 0.
    Cycle execute(const CodeInstruction& one, std::uint32_t extra, Cycle arrives, bool foreseen) {
        const auto operation = static_cast<std::size_t>(one.operation);
        Scheduler* const scheduler = scheduler_of(one);
        Cycle& left = left_[number_++ % left_.size()];
        Cycle begin = std::max(fetched_, left);
        const std::size_t results = integer_results(one);
        if (results > 0)  // as many instructions before, its register was still taken
            begin = std::max(begin, given_back_[(taken_ + results - 1) % given_back_.size()]);
        if (scheduler != nullptr) begin = scheduler->room(std::max(begin, dispatch_.at()));
        begin = dispatch_.take(begin, one.slots);
        Cycle address = begin + 1;
        for (const auto r : one.address) address = std::max(address, ready_[r]);
        const bool adds = one.operation == Operation::fp_add;
        Cycle sources = begin + 1, to_add = begin + 1;
        for (const auto r : one.sources) {
            sources = std::max(sources, ready_[r]);
            to_add = std::max(to_add, ready_to_add_[r]);
        }
        if (adds) sources = to_add;
        Cycle done = sources, leaves = begin + 1;
        if (one.load != Access::none) {
            done = std::max(done, load(one, address, extra, arrives));
            leaves = address;
        }
        if (one.operation == Operation::none) {
            // A copy of a register takes no time: the registers are renamed.
            if (one.load == Access::none) done = std::max(sources, begin);
        } else {
            const Cycle start =
                ports_.take(std::max(done, next_[operation]), shape_.ports[operation]);
            if (shape_.every[operation] > 1) next_[operation] = start + shape_.every[operation];
            done = start + shape_.cycles[operation];
            if (adds && shape_.add_to_add_cycles != 0) to_add = start + shape_.add_to_add_cycles;
            leaves = std::max(leaves, start);
        }
        Cycle whole = done;
        if (one.store != Access::none) {
            const Ports data = one.store == Access::vector ? shape_.vector_store_data_ports
                                                           : shape_.store_data_ports;
            const Cycle told = ports_.take(address, shape_.store_ports);
            const Cycle moved = ports_.take(done, data);
            whole = std::max(whole, std::max(told, moved) + 1);
            leaves = std::max(leaves, std::max(told, moved));
            memory_[key(one)].done = done;
        }
        const bool sooner = (adds && shape_.add_to_add_cycles != 0) || is_copy(one);
        for (const auto r : one.results) {
            ready_[r] = done;
            ready_to_add_[r] = sooner ? to_add : done;
        }
        ready_[0] = ready_to_add_[0] = 0;
        rename(one);
        if (scheduler != nullptr) scheduler->enter(leaves);
        left = retire_.take(whole, one.slots);
        for (std::size_t i = 0; i < results; ++i) given_back_[taken_++ % given_back_.size()] = left;
        if (!foreseen) fetched_ = std::max(fetched_, done + shape_.mispredict_cycles);
        return left;
    }

    // Lets the next instructions arrive after so many cycles.
    void fetch(float cycles) {
        late_ += cycles;
        const auto whole = static_cast<Cycle>(late_);
        if (whole == 0) return;
        late_ -= static_cast<float>(whole);
        fetched_ =
            std::max(fetched_ + whole, dispatch_.at() - std::min(dispatch_.at(), fetched_ahead));
    }

    // Until when the wrong guess of a branch is followed, and since when.
    [[nodiscard]] Cycle guessed_until() const {
        return fetched_ - std::min<Cycle>(fetched_, shape_.mispredict_cycles);
    }
    [[nodiscard]] Cycle dispatched() const { return dispatch_.at(); }

    // Executes instructions of the right path that a wrong one has, too, up to guessed_until().
    class Ahead {
      public:
        explicit Ahead(Pipeline& pipeline)
            : of_(pipeline),
              ready_(pipeline.ready_),
              until_(pipeline.guessed_until()),
              slot_(pipeline.dispatched() * pipeline.shape_.width) {}

        [[nodiscard]] bool goes_on() const {
            return executed_ < of_.shape_.window && slot_ / of_.shape_.width < until_;
        }

        void skip(const Meeting& meeting) {
            unknown_ |= meeting.unlike;
            executed_ += meeting.instructions;
            slot_ += meeting.instructions;
        }

        // Returns when the line of a slow access arrives, or 0 if this path does not fetch it.
        // `arrives`: when it does because another one has, or 0.
        Cycle execute(const CodeInstruction& one, std::uint32_t extra, Cycle arrives) {
            ++executed_;
            slot_ += one.slots;
            Cycle begin = slot_ / of_.shape_.width + 1;
            bool known = true;
            const auto wait = [&](std::uint8_t r) {
                known = known && !unknown_.test(r);
                begin = std::max(begin, ready_[r]);
            };
            for (const auto r : one.address) wait(r);
            if (one.load != Access::none && known) {
                if (extra != 0 && arrives == 0) arrives = miss(begin, extra);
                known = extra == 0 || arrives != 0;
                const bool general = one.load == Access::integer;
                begin += general ? of_.shape_.load_cycles : of_.shape_.vector_load_cycles;
                begin = std::max(begin, arrives);
            }
            for (const auto r : one.sources) wait(r);
            begin += of_.shape_.cycles[static_cast<std::size_t>(one.operation)];
            for (const auto r : one.results) {
                unknown_.set(r, r != 0 && !known);
                ready_[r] = r != 0 ? begin : 0;
            }
            return known ? arrives : 0;
        }

      private:
        // Returns when the line of a load arrives that begins before the branch is executed.
        Cycle miss(Cycle begin, std::uint32_t extra) {
            Cycle& answered = of_.answered_[of_.missed_ % of_.answered_.size()];
            begin = std::max(begin, answered);
            if (begin >= until_) return 0;
            ++of_.missed_;
            return answered = begin + of_.shape_.load_cycles + extra;
        }

        Pipeline& of_;
        std::array<Cycle, code_registers> ready_;
        RegisterSet unknown_;  // registers whose values the wrong path does not have
        Cycle until_, slot_;
        std::size_t executed_ = 0;
    };

  private:
    static constexpr Cycle fetched_ahead = 16;  // as much as its queue holds, about

    static bool is_copy(const CodeInstruction& one) {
        return one.operation == Operation::none && one.load == Access::none &&
               one.store == Access::none;
    }
    // The registers that an instruction takes until it leaves. A copy shares one, and so do zeros.
    // What is loaded only to be used at once takes one, too.
    [[nodiscard]] std::size_t integer_results(const CodeInstruction& one) const {
        if (given_back_.empty()) return 0;
        if (is_copy(one) && (one.origin != nothing || one.constant == 0)) return 0;
        const auto results =
            std::count_if(one.results.begin(), one.results.end(),
                          [](std::uint8_t r) { return r != 0 && r <= last_general; });
        if (results == 0 && one.load == Access::integer && one.operation != Operation::none)
            return 1;
        return static_cast<std::size_t>(results);
    }
    // Copies of registers wait for nothing.
    Scheduler* scheduler_of(const CodeInstruction& one) {
        if (is_copy(one)) return nullptr;
        const bool vector =
            one.operation >= Operation::fp_add && one.operation <= Operation::crossing;
        return vector && shape_.vector_scheduler > 0 ? &vector_scheduler_ : &scheduler_;
    }

    Cycle load(const CodeInstruction& one, Cycle address, std::uint32_t extra, Cycle arrives) {
        const bool vector = one.load != Access::integer;
        const unsigned cycles = vector ? shape_.vector_load_cycles : shape_.load_cycles;
        const Ports ports = vector ? shape_.vector_load_ports : shape_.load_ports;
        const auto begin = [&](Cycle ready) { return ports_.take(ready, ports); };
        if (extra == 0) {
            const Cycle read = begin(address) + cycles;
            const auto stored = memory_.find(key(one));
            if (stored == memory_.end() || stored->second.done == 0) return read;
            const Cycle later = cycles - std::min(cycles, shape_.load_cycles);
            // The store's data are passed to the load, which may be sooner than the address is
            // known.
            return std::max(address, stored->second.done + shape_.forward_cycles + 3 * later);
        }
        if (arrives != 0) return std::max(begin(address) + cycles, arrives);
        Cycle& answered = answered_[missed_++ % answered_.size()];
        const Cycle done = begin(std::max(address, answered)) + cycles + extra;
        answered = done;
        return done;
    }

    // Equal for accesses that are certain to be of the same address.
    [[nodiscard]] std::uint64_t key(const CodeInstruction& one) const {
        const Value base = one.address[0] != 0 ? values_[one.address[0]] : Value{};
        const Value index = one.address[1] != 0 ? values_[one.address[1]] : Value{};
        std::uint64_t hash = 0;
        const auto offset =
            static_cast<std::uint64_t>(base.plus + one.displacement + index.plus * one.scale);
        for (const std::uint64_t part : {base.of, index.of * one.scale, offset}) {
            hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
            hash ^= hash >> 29;
        }
        return hash;
    }

    // Notes what is known of the results, and of the memory that is stored to.
    void rename(const CodeInstruction& one) {
        Value result{++value_, 0};
        if (one.origin == loaded) {
            Value& there = memory_[key(one)].value;
            if (there.of == 0 && there.plus == 0) there = result;
            result = there;
        } else if (one.origin != 0) {
            result = {values_[one.origin].of, values_[one.origin].plus + one.constant};
        }
        if (one.store != Access::none) memory_[key(one)].value = result;
        for (const auto r : one.results)
            if (r != 0) values_[r] = {++value_, 0};
        if (one.results[0] != 0) values_[one.results[0]] = result;
    }

    const PipelineShape& shape_;
    PortUse ports_;
    std::array<Cycle, operations> next_{};  // when a unit that is not pipelined is free
    Scheduler scheduler_, vector_scheduler_;
    InOrder dispatch_, retire_;
    std::vector<Cycle> left_;  // of the last `window` instructions: when they left it
    std::vector<Cycle>
        given_back_;               // of the last `integer_results`: when their registers were free
    std::vector<Cycle> answered_;  // of the last `outstanding` slow accesses
    std::array<Cycle, code_registers> ready_{}, ready_to_add_{};  // the latter to an fp_add
    std::array<Value, code_registers> values_{};
    struct Memory {
        Cycle done = 0;  // when the data of the last store there was ready; 0: nothing was stored
        Value value;
    };
    std::unordered_map<std::uint64_t, Memory> memory_;  // by key
    std::uint64_t value_ = 0;
    std::size_t number_ = 0, missed_ = 0, taken_ = 0;
    Cycle fetched_ = 0;
    float late_ = 0;  // part of a cycle of fetching
};

// The slow accesses of a run, in order.
class SlowAccesses {
  public:
    explicit SlowAccesses(std::span<const SlowAccess> every)
        : every_(every), arrives_(every.size(), 0) {}

    // Goes on to those of the i-th block or, if it has none, of the next that has.
    void pass(std::size_t& next, std::size_t i) const {
        while (next < every_.size() && every_[next].block < i) ++next;
    }
    // The slowest one of an instruction of the i-th block, whose accesses begin at `next`.
    [[nodiscard]] const SlowAccess* of(std::size_t next, std::size_t i, std::size_t n) const {
        const SlowAccess* slowest = nullptr;
        for (; next < every_.size() && every_[next].block == i; ++next)
            if (every_[next].instruction == n &&
                (slowest == nullptr || slowest->cycles < every_[next].cycles))
                slowest = &every_[next];
        return slowest;
    }
    [[nodiscard]] bool any_from(std::size_t next) const { return next < every_.size(); }

    // When a wrong path has fetched its line; 0: it has not.
    Cycle& arrives(const SlowAccess& one) {
        return arrives_[static_cast<std::size_t>(&one - every_.data())];
    }

  private:
    std::span<const SlowAccess> every_;
    std::vector<Cycle> arrives_;
};

// Fetches the lines that the wrong path after the i-th block has in common with the right one.
void follow_wrong_path(Pipeline& pipeline, const Code& code, std::span<const std::uint32_t> blocks,
                       std::span<const std::uint8_t> foreseen, std::size_t i, std::size_t next,
                       SlowAccesses& slow) {
    const WrongPaths paths(code, blocks);
    Pipeline::Ahead ahead(pipeline);
    bool guesses_right = false;
    while (ahead.goes_on() && slow.any_from(next)) {
        std::size_t to = i + 1;
        if (!guesses_right) {
            const std::optional<Meeting> meeting = paths.after(i);
            if (!meeting) return;
            ahead.skip(*meeting);
            to = meeting->block;
        }
        if (to >= blocks.size()) return;
        slow.pass(next, to);
        const auto instructions = code.block(blocks[to]);
        for (std::size_t n = 0; n < instructions.size() && ahead.goes_on(); ++n) {
            const SlowAccess* const access = slow.of(next, to, n);
            Cycle none = 0;
            Cycle& arrives = access != nullptr ? slow.arrives(*access) : none;
            const std::uint32_t extra = access != nullptr ? access->cycles : 0;
            arrives = std::max(arrives, ahead.execute(instructions[n], extra, arrives));
        }
        guesses_right = foreseen[to] != 0;
        i = to;
    }
}

}  // namespace

double pipeline_cycles(const Code& code, std::span<const std::uint32_t> blocks,
                       std::span<const std::uint8_t> foreseen, std::span<const FetchCycles> fetch,
                       std::span<const SlowAccess> slow, const PipelineShape& shape) {
    std::uint64_t all = 0;
    for (const std::uint32_t b : blocks) all += code.block(b).size();
    const std::uint64_t filling = all / 8;
    Pipeline pipeline(shape);
    SlowAccesses accesses(slow);
    Cycle left = 0, filled = 0;
    std::uint64_t executed = 0, end = 0;
    std::size_t next = 0;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const auto instructions = code.block(blocks[i]);
        // No more than one branch a cycle is taken.
        const bool jumped = i > 0 && code.address[blocks[i]] != end;
        const FetchCycles of_block = fetch.empty() ? FetchCycles{} : fetch[blocks[i]];
        const bool restarts = i > 0 && foreseen[i - 1] == 0;
        pipeline.fetch(std::max(jumped ? 1.0F : 0.0F, of_block.steady) +
                       (restarts ? of_block.restart : 0.0F));
        accesses.pass(next, i);
        for (std::size_t n = 0; n < instructions.size(); ++n) {
            const SlowAccess* const access = accesses.of(next, i, n);
            const bool last = n + 1 == instructions.size();
            left = pipeline.execute(instructions[n], access != nullptr ? access->cycles : 0,
                                    access != nullptr ? accesses.arrives(*access) : 0,
                                    !last || foreseen[i] != 0);
            if (++executed == filling) filled = left;
        }
        if (foreseen[i] == 0)
            follow_wrong_path(pipeline, code, blocks, foreseen, i, next, accesses);
        end = code.address[blocks[i]] + code.bytes[blocks[i]];
    }
    if (executed == filling) return static_cast<double>(left);
    return static_cast<double>(left - filled) * static_cast<double>(all) /
           static_cast<double>(all - filling);
}

}  // namespace pagelens
