// One channel of a DRAM and its scheduler, from command to command instead of clock by clock.
//
// The rules, which a simulator that ticks (tests/cpp/reference_dram.hpp) follows to the picosecond:
// - Requests enter a window in the order of their arrival; it reaches from the oldest one not yet
//   served over `window` requests. With a window of 1 they are served in order.
// - Every command goes out as soon as the timing constraints allow; of reads and writes that could
//   go at the same moment the oldest goes first (FR-FCFS: first ready, first come), and likewise of
//   activates. A write waits for reads where turning the bus round takes longer, and the reverse.
// - A bank whose open row no request in the window wants, while one wants another row of it, is
//   precharged (a row conflict); until that happens a request for the open row still stops it.
//   With closed pages the last request in the window for a row closes it (auto-precharge).
// - Every tREFI all banks of a rank close and the rank rests for tRFC, the ranks by turns.
// - The command bus is not modelled: it never binds with one-line bursts.
// A channel without row conflicts, its ideal twin, finds every row open.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/machine/dram_timings.hpp"

namespace pagelens {

enum class RowPolicy : std::uint8_t {
    open,    // a row stays open until another one of its bank is wanted
    closed,  // a row is closed when no request in the window wants it
    ideal,   // every access finds its row open
};

// What happened at one bank. Every access is a hit (its row was open), a miss (the bank was closed)
// or a conflict (another row was open).
struct DramBankCounts {
    std::uint64_t reads = 0, writes = 0;
    std::uint64_t hits = 0, misses = 0, conflicts = 0;
    std::uint64_t refreshes = 0;
    friend bool operator==(const DramBankCounts&, const DramBankCounts&) = default;
};

struct DramRequest {
    Picoseconds issued;      // handed through
    std::uint32_t core = 0;  // handed through
    std::uint32_t row = 0;
    std::uint16_t bank = 0;  // of the channel
    bool write = false;
};

// How a channel's banks are grouped: bank b is in group b >> group_shift, rank b >> rank_shift.
struct DramChannelShape {
    std::uint32_t banks = 1;
    unsigned group_shift = 0, rank_shift = 0;
};

class DramChannel {
  public:
    static constexpr unsigned most_window = 64;

    // Preconditions: 1 <= window <= most_window; timings.check() holds.
    DramChannel(const DramChannelShape& shape, const DramTimings& timings, RowPolicy policy,
                unsigned window);

    // Makes room for so many requests at a time. Precondition: there are none.
    void reserve(std::size_t requests) { queue_.resize(std::max(queue_.size(), requests)); }

    // A request arrives. `now` never goes back, and is not later than next().
    // Precondition: there is room for it.
    void add(const DramRequest& request, Picoseconds now);

    // When the next command goes out; never() without requests.
    [[nodiscard]] Picoseconds next() const {
        return head_ == tail_ ? Picoseconds::never()
                              : std::min(refresh_at_, std::min(act_.at, cas_.at));
    }
    // Carries out what next() says; true if that was a read or write, whose request is `served`.
    // Precondition: there are requests.
    bool step(DramRequest& served);

    // Does the refreshes due up to `now` in a channel without requests.
    void settle(Picoseconds now);

    [[nodiscard]] const std::vector<DramBankCounts>& counts() const { return counts_; }

  private:
    enum class Opened : std::uint8_t { before, from_closed, from_other_row };

    using CasReady = std::array<Picoseconds, 2>;  // when the next read, write may follow

    struct Bank {
        std::uint64_t waiting = 0;  // its requests in the window, by place in the ring
        std::uint32_t row = 0;
        bool open = false;               // and no precharge decided
        bool closing = false;            // a precharge for another row decided, at precharge_at
        Opened opened = Opened::before;  // how the row that is open came to be, until it is counted
        Picoseconds precharge_at;        // if closing
        Picoseconds precharged;          // closed and ready to be activated, as for tRP
        Picoseconds act_ready;           // likewise, as for tRC and refresh
        Picoseconds cas_ready;           // for tRCD
        Picoseconds pre_ready;           // for tRAS, tRTP, tWR
    };
    struct Group {
        Picoseconds act_ready;
        CasReady cas_ready;
    };
    struct Rank {
        Picoseconds act_ready;
        CasReady cas_ready;
        std::array<Picoseconds, 4> four_acts{};  // earliest next activate for tFAW, oldest at `act`
        unsigned act = 0;
        Picoseconds refresh_at;
    };
    // The best command of a kind: its time and its request.
    struct Command {
        Picoseconds at = Picoseconds::never();
        unsigned slot = 0;
    };

    [[nodiscard]] unsigned age(unsigned slot) const { return (slot - head_) % most_window; }
    [[nodiscard]] unsigned oldest(std::uint64_t slots) const;
    [[nodiscard]] Picoseconds cas_time(unsigned slot) const;
    [[nodiscard]] Picoseconds act_time(unsigned slot) const;
    void offer(Command& best, Picoseconds at, unsigned slot) const;
    void find_cas(Picoseconds now);
    void find_act(Picoseconds now);

    void enter(const DramRequest& request, Picoseconds now);
    void make_ready(unsigned slot, Picoseconds now);
    void close_for_another(Bank& bank, Picoseconds now);
    void keep_open(Bank& bank, Picoseconds now);
    void activate(unsigned slot, Picoseconds now);
    void serve(unsigned slot, Picoseconds now);
    void refresh();
    void count(const DramRequest& request, Bank& bank);
    void delay_cas(const DramRequest& request, Picoseconds now);

    DramTimings timings_;
    CasToCas cas_to_cas_;
    Picoseconds least_gap_;  // from one read or write to the next
    RowPolicy policy_;
    unsigned window_;
    unsigned group_shift_, rank_shift_;
    std::vector<Bank> banks_;
    std::vector<Group> groups_;
    std::vector<Rank> ranks_;
    std::vector<DramBankCounts> counts_;

    // The window: places head_ to tail_ (counted on and on) of a ring.
    std::array<DramRequest, most_window> slots_;
    unsigned head_ = 0, tail_ = 0;
    std::uint64_t waiting_ = 0;  // requests in the window
    std::uint64_t ready_ = 0;    // of these, those whose row is open
    std::uint64_t opening_ = 0;  // the oldest request of each bank that has to be activated
    Command cas_, act_;
    Picoseconds last_cas_;
    Picoseconds refresh_at_;  // of the rank that is next
    // Requests that the window has no place for, oldest first: a ring.
    std::vector<DramRequest> queue_;
    std::size_t queue_head_ = 0, queued_ = 0;
};

}  // namespace pagelens
