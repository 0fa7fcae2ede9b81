#include "core/machine/pipeline.hpp"

#include <algorithm>
#include <unordered_map>

namespace pagelens {

namespace {

using Cycle = std::uint64_t;

// When each of some equal pipes is taken. A pipe may be taken earlier than by an instruction
// before.
class Pipes {
  public:
    explicit Pipes(unsigned count) : count_(count), taken_(ring), of_(ring) {}

    // From `ready` on, for `busy` cycles; returns the first.
    Cycle take(Cycle ready, unsigned busy) {
        if (count_ == 0) return ready;
        while (used(ready) >= count_) ++ready;
        for (unsigned i = 0; i < busy; ++i) ++used(ready + i);
        return ready;
    }

  private:
    static constexpr std::size_t ring = 1u << 14;

    // Of a cycle that is more than the ring's length ahead of others these are forgotten.
    std::uint8_t& used(Cycle at) {
        const std::size_t place = at % ring;
        if (of_[place] != at) {
            of_[place] = at;
            taken_[place] = 0;
        }
        return taken_[place];
    }

    unsigned count_;
    std::vector<std::uint8_t> taken_;
    std::vector<Cycle> of_;
};

// So many in each cycle, in order.
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

// What is known of the value of a register: some earlier value, whatever it was, and what was
// added.
struct Value {
    std::uint64_t of = 0;
    std::int64_t plus = 0;
};

class Pipeline {
  public:
    explicit Pipeline(const PipelineShape& shape)
        : shape_(shape),
          loads_(shape.load_pipes),
          vector_loads_(shape.vector_load_pipes),
          stores_(shape.store_pipes),
          dispatch_(shape.width),
          retire_(shape.width),
          left_(std::max(1u, shape.window), 0),
          answered_(std::max(1u, shape.outstanding), 0) {
        pipes_.reserve(operations);
        for (const unsigned count : shape.pipes) pipes_.emplace_back(count);
        for (std::size_t i = 0; i < code_registers; ++i) values_[i].of = ++value_;
    }

    // Returns when it leaves the window. `extra`: cycles of its load beyond a hit of L1.
    Cycle execute(const CodeInstruction& one, std::uint32_t extra, bool foreseen) {
        Cycle& left = left_[number_++ % left_.size()];
        const Cycle begin = dispatch_.take(std::max(fetched_, left), one.slots);
        Cycle address = begin + 1;
        for (const auto r : one.address) address = std::max(address, ready_[r]);
        Cycle sources = begin + 1;
        for (const auto r : one.sources) sources = std::max(sources, ready_[r]);
        const auto operation = static_cast<std::size_t>(one.operation);
        Cycle done = sources;
        if (one.load != Access::none) done = std::max(done, load(one, address, extra));
        if (one.operation == Operation::none) {
            // A copy of a register takes no time: the registers are renamed.
            if (one.load == Access::none) done = std::max(sources, begin);
        } else {
            const Cycle start =
                pipes_[operation].take(done, std::max<unsigned>(1, shape_.busy[operation]));
            done = start + shape_.cycles[operation];
        }
        Cycle whole = done;
        if (one.store != Access::none) {
            Cycle told = stores_.take(address, 1);
            if (one.store == Access::wide)
                for (unsigned i = 1; i < shape_.store_pipes; ++i) told = stores_.take(told, 1);
            whole = std::max(whole, told + 1);
            stored_[key(one)] = done;
        }
        for (const auto r : one.results) ready_[r] = done;
        ready_[0] = 0;
        rename(one);
        left = retire_.take(whole, one.slots);
        if (!foreseen) fetched_ = std::max(fetched_, done + shape_.mispredict_cycles);
        return left;
    }

    // One such branch a cycle.
    void branch_taken() {
        const Cycle ahead = std::min(dispatch_.at(), fetched_ahead);
        fetched_ = std::max(fetched_ + 1, dispatch_.at() - ahead);
    }

  private:
    static constexpr Cycle fetched_ahead = 16;  // as much as its queue holds, about

    Cycle load(const CodeInstruction& one, Cycle address, std::uint32_t extra) {
        const bool vector = one.load != Access::integer;
        const unsigned cycles = vector ? shape_.vector_load_cycles : shape_.load_cycles;
        const auto begin = [&](Cycle ready) {
            if (vector) ready = vector_loads_.take(ready, 1);
            return loads_.take(ready, 1);
        };
        if (extra == 0) {
            const Cycle read = begin(address) + cycles;
            const auto stored = stored_.find(key(one));
            if (stored == stored_.end()) return read;
            const Cycle later = cycles - std::min(cycles, shape_.load_cycles);
            // The store's data are handed on, which may be sooner than the address is known.
            return std::max(address, stored->second + shape_.forward_cycles + 3 * later);
        }
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

    void rename(const CodeInstruction& one) {
        const Value origin = values_[one.origin];
        for (const auto r : one.results)
            if (r != 0) values_[r] = {++value_, 0};
        if (one.origin != 0 && one.results[0] != 0)
            values_[one.results[0]] = {origin.of, origin.plus + one.constant};
    }

    const PipelineShape& shape_;
    std::vector<Pipes> pipes_;
    Pipes loads_, vector_loads_, stores_;
    InOrder dispatch_, retire_;
    std::vector<Cycle> left_;      // of the last `window` instructions: when they left it
    std::vector<Cycle> answered_;  // of the last `outstanding` slow accesses
    std::array<Cycle, code_registers> ready_{};
    std::array<Value, code_registers> values_{};
    std::unordered_map<std::uint64_t, Cycle> stored_;  // when the data of stores was there
    std::uint64_t value_ = 0;
    std::size_t number_ = 0, missed_ = 0;
    Cycle fetched_ = 0;
};

}  // namespace

double pipeline_cycles(const Code& code, std::span<const std::uint32_t> blocks,
                       std::span<const std::uint8_t> foreseen, std::span<const SlowAccess> slow,
                       const PipelineShape& shape) {
    std::uint64_t all = 0;
    for (const std::uint32_t b : blocks) all += code.block(b).size();
    const std::uint64_t filling = all / 8;
    Pipeline pipeline(shape);
    Cycle left = 0, filled = 0;
    std::uint64_t executed = 0;
    auto next = slow.begin();
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const auto instructions = code.block(blocks[i]);
        for (std::size_t n = 0; n < instructions.size(); ++n) {
            std::uint32_t extra = 0;
            while (next != slow.end() && next->block < i) ++next;
            for (auto access = next; access != slow.end() && access->block == i; ++access)
                if (access->instruction == n) extra = std::max(extra, access->cycles);
            const bool last = n + 1 == instructions.size();
            left = pipeline.execute(instructions[n], extra, !last || foreseen[i] != 0);
            if (++executed == filling) filled = left;
        }
        const std::uint64_t end = code.address[blocks[i]] + code.bytes[blocks[i]];
        if (i + 1 < blocks.size() && code.address[blocks[i + 1]] != end) pipeline.branch_taken();
    }
    if (executed == filling) return static_cast<double>(left);
    return static_cast<double>(left - filled) * static_cast<double>(all) /
           static_cast<double>(all - filling);
}

}  // namespace pagelens
