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

#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "core/machine/dram_request.hpp"
#include "core/machine/dram_returns.hpp"
#include "core/machine/dram_timings.hpp"

namespace pagelens {

enum class RowPolicy : std::uint8_t {
    open,    // a row stays open until another one of its bank is wanted
    closed,  // a row is closed when no request in the window wants it
    ideal,   // every access finds its row open
};

// The counts of one bank. Every access is a hit (its row was open), a miss (the bank was closed) or
// a conflict (another row was open).
struct DramBankCounts {
    std::uint64_t reads = 0, writes = 0;
    std::uint64_t hits = 0, misses = 0, conflicts = 0;
    std::uint64_t refreshes = 0;
    friend bool operator==(const DramBankCounts&, const DramBankCounts&) = default;
};

// The grouping of a channel's banks: bank b is in group b >> group_shift and rank b >> rank_shift.
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
    void reserve(std::size_t requests);

    // Adds a request. Requests are added in the order in which they are issued, and none is issued
    // before what has been run. Precondition: there is room for it.
    void add(const DramRequest& request) {
        next_ = earliest(next_, request.issued);
        queued(arrived_++) = request;
        queued(arrived_).issued = Picoseconds::never();
    }

    // Returns a moment not later than the next event, or never() without requests.
    [[nodiscard]] Picoseconds next() const { return next_; }
    // Runs everything that happens before `end`. Lines that are read or written go to `returns`.
    void run(Picoseconds end, DramReturns& returns);

    // Does the refreshes due up to `now` in a channel without requests.
    void settle(Picoseconds now);

    [[nodiscard]] std::vector<DramBankCounts> counts() const;

  private:
    using CasReady = std::array<Picoseconds, 2>;  // when the next read, write may follow

    enum class RowState : std::uint8_t {
        closed,   // or to be closed by itself at the next moment that allows it
        closing,  // a precharge for another row decided, at precharge_at
        open      // and no precharge decided
    };
    // How a request found its row.
    enum Found : std::uint8_t { hit, miss, conflict };

    struct alignas(64) Bank {
        std::uint64_t waiting = 0;  // its requests in the window
        Picoseconds precharge_at;   // if closing
        Picoseconds act_at;         // unless open: for tRP, tRC and refresh
        Picoseconds row_cycled;     // for tRC
        Picoseconds cas_ready;      // for tRCD
        Picoseconds pre_ready;      // for tRAS, tRTP, tWR
        std::uint32_t row = 0;
        RowState state = RowState::closed;
        Found found = hit;  // by the first request for the row that is open, until it is served
    };
    // The times at which the next command of a kind may go to the banks of a group or rank.
    struct alignas(32) Shared {
        Picoseconds act_ready;
        CasReady cas_ready;
    };
    struct Rank {
        std::array<Picoseconds, 4> four_acts{};  // the last ones, and tFAW; the oldest at `act`
        unsigned act = 0;
        Picoseconds refresh_at;
        std::uint64_t refreshes = 0;
    };
    using Served = std::array<std::array<std::uint64_t, 3>, 2>;  // [write][Found]

    // A request in the window.
    struct Waiting {
        DramRequest request;
        Picoseconds bank_ready;  // when its bank allows its next command
    };
    // The best command of a kind: its time and its request.
    struct Command {
        Picoseconds at = Picoseconds::never();
        std::uint64_t request = 0;
    };

    // Requests have numbers in the order of arrival, from which their places in rings follow, and
    // bits in masks of the window.
    [[nodiscard]] DramRequest& queued(std::uint64_t number) { return queue_[number & queue_mask_]; }
    [[nodiscard]] Waiting& waiting(std::uint64_t number) { return window_[number % most_window]; }
    static std::uint64_t bit(std::uint64_t number) {
        return std::uint64_t{1} << number % most_window;
    }
    // Returns the requests of the window, with the oldest as the lowest bit.
    [[nodiscard]] std::uint64_t by_age(std::uint64_t requests) const {
        return std::rotr(requests, static_cast<int>(oldest_ % most_window));
    }
    [[nodiscard]] std::uint64_t first(std::uint64_t by_age) const {
        return oldest_ + static_cast<unsigned>(std::countr_zero(by_age));
    }
    // Returns the best of the requests by their time(Waiting); none is before `earliest`. Time and
    // age are one number, so that no branch depends on which is less.
    template <class Time>
    [[nodiscard]] Command best(std::uint64_t requests, Picoseconds earliest, Time&& time) const {
        std::uint64_t best = static_cast<std::uint64_t>(Picoseconds::never().raw()) * most_window;
        for (std::uint64_t left = by_age(requests); left != 0; left &= left - 1) {
            const auto age = static_cast<unsigned>(std::countr_zero(left));
            const Picoseconds at = time(window_[(oldest_ + age) % most_window]);
            const std::uint64_t here = static_cast<std::uint64_t>(at.raw()) * most_window + age;
            best = here < best ? here : best;
            if (at <= earliest) break;
        }
        return {Picoseconds(static_cast<std::int64_t>(best / most_window)),
                oldest_ + best % most_window};
    }

    [[nodiscard]] Picoseconds entry() const;
    [[nodiscard]] Picoseconds cas_time(const Waiting& waiting) const;
    [[nodiscard]] Picoseconds act_time(const Waiting& waiting) const;
    [[nodiscard]] bool its_row_is_open(const Bank& bank, const DramLine& line) const;
    static void offer(Command& best, Picoseconds at, std::uint64_t number);
    void find_cas();
    void find_act();

    void enter(Picoseconds now);
    void make_ready(std::uint64_t number, Picoseconds now);
    void find_ready(const Bank& bank, Picoseconds now);
    void want(Bank& bank, Picoseconds now);
    void close_for_another(Bank& bank, Picoseconds now);
    void keep_open(Bank& bank);
    void activate(std::uint64_t number, Picoseconds now);
    void serve(std::uint64_t number, Picoseconds now);
    void refresh();
    void delay_cas(const DramLine& line, Picoseconds now);

    DramTimings timings_;
    CasToCas cas_to_cas_;
    Picoseconds least_gap_;                  // from one read or write to the next
    std::array<Picoseconds, 2> cas_to_pre_;  // [write]
    RowPolicy policy_;
    unsigned width_;  // of the window
    unsigned rank_shift_;
    std::vector<Bank> banks_;
    std::vector<Shared> in_group_, in_rank_;
    std::vector<Rank> ranks_;
    std::vector<Served> served_;  // [bank]

    std::vector<DramRequest> queue_;  // those that arrived, or will
    std::uint64_t queue_mask_ = 0;
    // The number of the oldest request in the window, of the next to enter it, and of the next to
    // arrive.
    std::uint64_t oldest_ = 0, entered_ = 0, arrived_ = 0;
    std::array<Waiting, most_window> window_;
    std::uint64_t waiting_ = 0;  // requests in the window that are not served
    std::uint64_t ready_ = 0;    // of these, those whose row is open
    std::uint64_t opening_ = 0;  // the oldest request of each bank that has to be activated
    Command cas_, act_;          // the best for those that are ready, and those that are opening
    Picoseconds last_cas_;
    Picoseconds refresh_at_;  // of the rank that is next
    Picoseconds next_ = Picoseconds::never();
};

}  // namespace pagelens
