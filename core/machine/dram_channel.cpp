#include "core/machine/dram_channel.hpp"

#include "core/machine/clones.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace pagelens {

DramChannel::DramChannel(const DramChannelShape& shape, const DramTimings& timings,
                         RowPolicy policy, unsigned window)
    : timings_(timings),
      cas_to_cas_(timings),
      least_gap_(cas_to_cas_.least()),
      cas_to_pre_{timings.tRTP, timings.CWL + timings.burst + timings.tWR},
      policy_(policy),
      width_(window),
      rank_shift_(shape.rank_shift),
      banks_(shape.banks),
      in_group_(shape.banks >> shape.group_shift),
      in_rank_(shape.banks >> shape.rank_shift),
      ranks_(shape.banks >> shape.rank_shift),
      served_(shape.banks) {
    assert(window >= 1 && window <= most_window);
    reserve(0);
    last_cas_ = Picoseconds(0) - least_gap_;
    // The first refreshes of the ranks spread over tREFI, at whole clocks.
    const auto ranks = static_cast<std::int64_t>(ranks_.size());
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const std::int64_t due = timings.tREFI.raw() * (rank + 1) / ranks;
        ranks_[static_cast<std::size_t>(rank)].refresh_at =
            Picoseconds(due - due % timings.tCK.raw());
    }
    refresh_at_ = ranks_[0].refresh_at;
}

// One place more is for a request that never arrives.
void DramChannel::reserve(std::size_t requests) {
    const std::size_t places = std::bit_ceil(requests + 1);
    if (places <= queue_.size()) return;
    queue_.resize(places);
    queue_mask_ = places - 1;
    queued(arrived_).issued = Picoseconds::never();
}

// Returns when the next request enters the window, or never() while that is full. If the time is
// past, the request waited for its place.
inline Picoseconds DramChannel::entry() const {
    return entered_ - oldest_ == width_ ? Picoseconds::never()
                                        : queue_[entered_ & queue_mask_].issued;
}

inline Picoseconds DramChannel::cas_time(const Waiting& waiting) const {
    const DramLine& line = waiting.request.line;
    return latest(waiting.bank_ready, in_group_[line.group].cas_ready[line.write],
                  in_rank_[line.rank].cas_ready[line.write]);
}

inline Picoseconds DramChannel::act_time(const Waiting& waiting) const {
    const DramLine& line = waiting.request.line;
    return latest(waiting.bank_ready, in_group_[line.group].act_ready,
                  in_rank_[line.rank].act_ready);
}

inline bool DramChannel::its_row_is_open(const Bank& bank, const DramLine& line) const {
    return policy_ == RowPolicy::ideal || (bank.state == RowState::open && bank.row == line.row);
}

// Takes a command as the best one if it is earlier. Among commands of one moment, that of the
// oldest request is better.
inline void DramChannel::offer(Command& best, Picoseconds at, std::uint64_t number) {
    if (at < best.at || (at == best.at && number < best.request)) best = {at, number};
}

inline void DramChannel::find_cas() {
    cas_ = best(ready_, last_cas_ + least_gap_,
                [this](const Waiting& waiting) { return cas_time(waiting); });
}

inline void DramChannel::find_act() {
    act_ = best(opening_, Picoseconds(0),
                [this](const Waiting& waiting) { return act_time(waiting); });
}

// At one moment ranks refresh first, then requests enter, then activates go out, then reads or
// writes. All of this is one function, because an event is too short for calls.
PAGELENS_CLONES void DramChannel::run(Picoseconds end, DramReturns& returns) {
    Picoseconds now, entry = this->entry();
    for (;;) {
        const Picoseconds next = earliest(entry, earliest(act_.at, cas_.at));
        if (next >= earliest(end, refresh_at_)) {
            next_ = next;
            if (next >= end) return;
            refresh();
        } else if (entry == next) {
            now = latest(now, entry);
            enter(now);
            entry = this->entry();
        } else if (act_.at == next) {
            now = next;
            activate(act_.request, now);
        } else {
            now = next;
            returns.push(waiting(cas_.request).request, now);
            serve(cas_.request, now);
            entry = this->entry();
        }
    }
}

void DramChannel::settle(Picoseconds now) {
    assert(oldest_ == arrived_);
    while (refresh_at_ <= now) refresh();
}

inline void DramChannel::enter(Picoseconds now) {
    const std::uint64_t number = entered_++;
    const DramLine& line = (waiting(number).request = queued(number)).line;
    Bank& bank = banks_[line.bank];
    const bool first = bank.waiting == 0;
    waiting_ |= bit(number);
    bank.waiting |= bit(number);
    if (its_row_is_open(bank, line)) {
        make_ready(number, now);
    } else if (bank.state == RowState::closing && bank.row == line.row &&
               now <= bank.precharge_at) {
        keep_open(bank);
        make_ready(number, now);
    } else if (first) {
        if (bank.state == RowState::open) close_for_another(bank, now);
        want(bank, now);
    }
}

// Makes a request ready whose row is open.
inline void DramChannel::make_ready(std::uint64_t number, Picoseconds now) {
    Waiting& waiting = this->waiting(number);
    waiting.bank_ready = latest(banks_[waiting.request.line.bank].cas_ready, now);
    ready_ |= bit(number);
    offer(cas_, cas_time(waiting), number);
}

// Makes the requests for a bank's row ready, which is open from now on.
inline void DramChannel::find_ready(const Bank& bank, Picoseconds now) {
    for (std::uint64_t left = by_age(bank.waiting); left != 0; left &= left - 1) {
        const std::uint64_t number = first(left);
        if (its_row_is_open(bank, waiting(number).request.line)) make_ready(number, now);
    }
}

// Wants an activate for the oldest request of a bank that is not open.
inline void DramChannel::want(Bank& bank, Picoseconds now) {
    const std::uint64_t number = first(by_age(bank.waiting));
    Waiting& waiting = this->waiting(number);
    waiting.bank_ready = latest(bank.act_at, now);
    opening_ |= bit(number);
    offer(act_, act_time(waiting), number);
}

// Closes the bank's row, which no request in the window wants, for a request that wants another.
inline void DramChannel::close_for_another(Bank& bank, Picoseconds now) {
    bank.state = RowState::closing;
    bank.precharge_at = latest(now, bank.pre_ready);
    bank.act_at = latest(bank.precharge_at + timings_.tRP, bank.row_cycled);
}

// Keeps a bank's row open, because a request for it has come before the precharge that was decided
// has gone out.
[[gnu::noinline]] void DramChannel::keep_open(Bank& bank) {
    bank.state = RowState::open;
    opening_ &= ~bank.waiting;
    find_act();
}

inline void DramChannel::activate(std::uint64_t number, Picoseconds now) {
    const DramLine& line = waiting(number).request.line;
    Bank& bank = banks_[line.bank];
    Rank& rank = ranks_[line.rank];
    bank.found = bank.state == RowState::closing ? conflict : miss;
    bank.state = RowState::open;
    bank.row = line.row;
    bank.cas_ready = now + timings_.tRCD;
    bank.pre_ready = now + timings_.tRAS;
    bank.row_cycled = now + timings_.tRC;
    in_group_[line.group].act_ready = now + timings_.tRRD_L;
    rank.four_acts[rank.act] = now + timings_.tFAW;
    rank.act = (rank.act + 1) % 4;
    in_rank_[line.rank].act_ready = latest(now + timings_.tRRD_S, rank.four_acts[rank.act]);
    opening_ &= ~bit(number);
    find_ready(bank, now);
    find_act();
}

// Delays the commands that must keep their distance from this read or write at `now`.
inline void DramChannel::delay_cas(const DramLine& line, Picoseconds now) {
    const auto delay = [now](CasReady& ready, const CasReady& gaps) {
        ready = {latest(ready[0], now + gaps[0]), latest(ready[1], now + gaps[1])};
    };
    const CasReady& other_gaps = cas_to_cas_.other_rank[line.write];
    const CasReady& own_gaps = cas_to_cas_.same_rank[line.write];
    const Shared* const own = &in_rank_[line.rank];
    for (Shared& rank : in_rank_) delay(rank.cas_ready, &rank == own ? own_gaps : other_gaps);
    delay(in_group_[line.group].cas_ready, cas_to_cas_.same_group[line.write]);
}

inline void DramChannel::serve(std::uint64_t number, Picoseconds now) {
    const DramLine& line = waiting(number).request.line;
    Bank& bank = banks_[line.bank];
    ++served_[line.bank][line.write][bank.found];
    bank.found = hit;
    last_cas_ = now;
    delay_cas(line, now);
    bank.pre_ready = latest(bank.pre_ready, now + cas_to_pre_[line.write]);

    waiting_ &= ~bit(number);
    ready_ &= ~bit(number);
    bank.waiting &= ~bit(number);
    if ((bank.waiting & ready_) == 0) {
        if (policy_ == RowPolicy::closed) {
            bank.state = RowState::closed;
            bank.act_at = latest(bank.pre_ready + timings_.tRP, bank.row_cycled);
            if (bank.waiting != 0) want(bank, now);
        } else if (policy_ == RowPolicy::open && bank.waiting != 0) {
            close_for_another(bank, now);
            want(bank, now);
        }
    }
    oldest_ = waiting_ == 0 ? entered_ : first(by_age(waiting_));
    find_cas();
}

// Refreshes the rank that is due: its open banks precharge as soon as they may, then it rests.
[[gnu::noinline]] void DramChannel::refresh() {
    const auto due =
        std::min_element(ranks_.begin(), ranks_.end(),
                         [](const Rank& a, const Rank& b) { return a.refresh_at < b.refresh_at; });
    const auto first_bank = static_cast<std::size_t>(due - ranks_.begin()) << rank_shift_;
    const std::size_t end_bank = first_bank + (std::size_t{1} << rank_shift_);
    const Picoseconds now = due->refresh_at;
    Picoseconds begin = now;
    for (std::size_t i = first_bank; i < end_bank; ++i) {
        const Bank& bank = banks_[i];
        const bool closes = bank.state == RowState::open ||
                            (bank.state == RowState::closing && bank.precharge_at >= now);
        begin = latest(begin, bank.row_cycled,
                       closes ? latest(now, bank.pre_ready) + timings_.tRP : bank.act_at);
    }
    const Picoseconds end = begin + timings_.tRFC;
    for (std::size_t i = first_bank; i < end_bank; ++i) {
        Bank& bank = banks_[i];
        ready_ &= ~bank.waiting;
        opening_ &= ~bank.waiting;
        if (policy_ == RowPolicy::ideal) {
            bank.cas_ready = end;
            find_ready(bank, now);
        } else {
            bank.state = RowState::closed;
            bank.act_at = end;
            if (bank.waiting != 0) want(bank, now);
        }
    }
    ++due->refreshes;
    due->refresh_at += timings_.tREFI;
    refresh_at_ = std::min_element(ranks_.begin(), ranks_.end(), [](const Rank& a, const Rank& b) {
                      return a.refresh_at < b.refresh_at;
                  })->refresh_at;
    find_act();
    find_cas();
}

std::vector<DramBankCounts> DramChannel::counts() const {
    std::vector<DramBankCounts> counts;
    for (std::size_t bank = 0; bank < banks_.size(); ++bank) {
        const auto& [reads, writes] = served_[bank];
        counts.push_back({std::reduce(reads.begin(), reads.end()),
                          std::reduce(writes.begin(), writes.end()), reads[hit] + writes[hit],
                          reads[miss] + writes[miss], reads[conflict] + writes[conflict],
                          ranks_[bank >> rank_shift_].refreshes});
    }
    return counts;
}

}  // namespace pagelens
