#include "core/machine/dram_channel.hpp"

#include <algorithm>
#include <cassert>

namespace pagelens {
namespace {

constexpr std::uint64_t bit(unsigned slot) { return std::uint64_t{1} << slot; }

}  // namespace

DramChannel::DramChannel(const DramChannelShape& shape, const DramTimings& timings,
                         RowPolicy policy, unsigned window)
    : timings_(timings),
      cas_to_cas_(timings),
      least_gap_(cas_to_cas_.least()),
      policy_(policy),
      window_(window),
      group_shift_(shape.group_shift),
      rank_shift_(shape.rank_shift),
      banks_(shape.banks),
      groups_(shape.banks >> shape.group_shift),
      ranks_(shape.banks >> shape.rank_shift),
      counts_(shape.banks) {
    assert(window >= 1 && window <= most_window);
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

// The slot of the oldest request among `slots` (not empty).
unsigned DramChannel::oldest(std::uint64_t slots) const {
    const auto turned = std::rotr(slots, static_cast<int>(head_ % most_window));
    return (head_ + static_cast<unsigned>(std::countr_zero(turned))) % most_window;
}

Picoseconds DramChannel::cas_time(unsigned slot) const {
    const DramRequest& request = slots_[slot];
    return latest(banks_[request.bank].cas_ready,
                  groups_[request.bank >> group_shift_].cas_ready[request.write],
                  ranks_[request.bank >> rank_shift_].cas_ready[request.write]);
}

Picoseconds DramChannel::act_time(unsigned slot) const {
    const std::uint32_t number = slots_[slot].bank;
    const Bank& bank = banks_[number];
    const Rank& rank = ranks_[number >> rank_shift_];
    return latest(bank.precharged, bank.act_ready, groups_[number >> group_shift_].act_ready,
                  rank.act_ready, rank.four_acts[rank.act]);
}

void DramChannel::offer(Command& best, Picoseconds at, unsigned slot) const {
    if (at < best.at || (at == best.at && age(slot) < age(best.slot))) best = {at, slot};
}

void DramChannel::find_cas(Picoseconds now) {
    cas_ = {};
    const Picoseconds earliest = std::max(now, last_cas_ + least_gap_);
    std::uint64_t left = std::rotr(ready_, static_cast<int>(head_ % most_window));
    for (; left != 0; left &= left - 1) {  // from the oldest on
        const unsigned slot = (head_ + static_cast<unsigned>(std::countr_zero(left))) % most_window;
        const Picoseconds at = std::max(cas_time(slot), earliest);
        if (at < cas_.at) cas_ = {at, slot};
        if (at == earliest) return;
    }
}

void DramChannel::find_act(Picoseconds now) {
    act_ = {};
    std::uint64_t left = std::rotr(opening_, static_cast<int>(head_ % most_window));
    for (; left != 0; left &= left - 1) {
        const unsigned slot = (head_ + static_cast<unsigned>(std::countr_zero(left))) % most_window;
        const Picoseconds at = std::max(act_time(slot), now);
        if (at < act_.at) act_ = {at, slot};
        if (at == now) return;
    }
}

void DramChannel::add(const DramRequest& request, Picoseconds now) {
    while (refresh_at_ <= now) refresh();
    if (tail_ - head_ < window_) {  // then none is queued
        enter(request, now);
        return;
    }
    assert(queued_ < queue_.size());
    std::size_t tail = queue_head_ + queued_++;
    if (tail >= queue_.size()) tail -= queue_.size();
    queue_[tail] = request;
}

void DramChannel::settle(Picoseconds now) {
    assert(head_ == tail_);
    while (refresh_at_ <= now) refresh();
}

void DramChannel::enter(const DramRequest& request, Picoseconds now) {
    const unsigned slot = tail_++ % most_window;
    slots_[slot] = request;
    waiting_ |= bit(slot);
    Bank& bank = banks_[request.bank];
    const bool first = bank.waiting == 0;
    bank.waiting |= bit(slot);
    if (policy_ == RowPolicy::ideal || (bank.open && bank.row == request.row)) {
        make_ready(slot, now);
    } else if (bank.open) {
        if (first) close_for_another(bank, now);
    } else if (bank.closing && now <= bank.precharge_at && bank.row == request.row) {
        keep_open(bank, now);
        make_ready(slot, now);
    } else if (first) {
        opening_ |= bit(slot);
        offer(act_, std::max(act_time(slot), now), slot);
    }
}

void DramChannel::make_ready(unsigned slot, Picoseconds now) {
    ready_ |= bit(slot);
    offer(cas_, std::max(cas_time(slot), now), slot);
}

// No request in the window wants the bank's row, one wants another.
void DramChannel::close_for_another(Bank& bank, Picoseconds now) {
    bank.open = false;
    bank.closing = true;
    bank.precharge_at = std::max(now, bank.pre_ready);
    bank.precharged = bank.precharge_at + timings_.tRP;
    const unsigned slot = oldest(bank.waiting);
    opening_ |= bit(slot);
    offer(act_, std::max(act_time(slot), now), slot);
}

// The precharge decided has not gone out, and a request for the row has come.
void DramChannel::keep_open(Bank& bank, Picoseconds now) {
    bank.open = true;
    bank.closing = false;
    opening_ &= ~bank.waiting;
    find_act(now);
}

void DramChannel::activate(unsigned slot, Picoseconds now) {
    const std::uint32_t number = slots_[slot].bank;
    Bank& bank = banks_[number];
    Rank& rank = ranks_[number >> rank_shift_];
    bank.opened = bank.closing ? Opened::from_other_row : Opened::from_closed;
    bank.open = true;
    bank.closing = false;
    bank.row = slots_[slot].row;
    bank.cas_ready = now + timings_.tRCD;
    bank.pre_ready = now + timings_.tRAS;
    bank.act_ready = now + timings_.tRC;
    groups_[number >> group_shift_].act_ready = now + timings_.tRRD_L;
    rank.act_ready = now + timings_.tRRD_S;
    rank.four_acts[rank.act] = now + timings_.tFAW;
    rank.act = (rank.act + 1) % 4;
    opening_ &= ~bit(slot);
    for (std::uint64_t left = bank.waiting; left != 0; left &= left - 1) {
        const auto other = static_cast<unsigned>(std::countr_zero(left));
        if (slots_[other].row == bank.row) make_ready(other, now);
    }
    find_act(now);
}

void DramChannel::count(const DramRequest& request, Bank& bank) {
    DramBankCounts& counts = counts_[request.bank];
    ++(request.write ? counts.writes : counts.reads);
    ++(bank.opened == Opened::before        ? counts.hits
       : bank.opened == Opened::from_closed ? counts.misses
                                            : counts.conflicts);
    bank.opened = Opened::before;
}

// What follows this read or write, at `now`, has to keep its distance.
void DramChannel::delay_cas(const DramRequest& request, Picoseconds now) {
    const auto delay = [now](CasReady& ready, const CasReady& gaps) {
        ready = {latest(ready[0], now + gaps[0]), latest(ready[1], now + gaps[1])};
    };
    Rank& own = ranks_[request.bank >> rank_shift_];
    const CasReady before = own.cas_ready;
    for (Rank& rank : ranks_) delay(rank.cas_ready, cas_to_cas_.other_rank[request.write]);
    own.cas_ready = before;
    delay(own.cas_ready, cas_to_cas_.same_rank[request.write]);
    delay(groups_[request.bank >> group_shift_].cas_ready, cas_to_cas_.same_group[request.write]);
}

void DramChannel::serve(unsigned slot, Picoseconds now) {
    const DramRequest& request = slots_[slot];
    const bool write = request.write;
    Bank& bank = banks_[request.bank];
    count(request, bank);
    last_cas_ = now;
    delay_cas(request, now);
    bank.pre_ready =
        latest(bank.pre_ready,
               now + (write ? timings_.CWL + timings_.burst + timings_.tWR : timings_.tRTP));

    waiting_ &= ~bit(slot);
    ready_ &= ~bit(slot);
    bank.waiting &= ~bit(slot);
    if ((bank.waiting & ready_) == 0) {
        if (policy_ == RowPolicy::closed) {
            bank.open = false;
            bank.precharged = bank.pre_ready + timings_.tRP;
            if (bank.waiting != 0) {
                const unsigned next = oldest(bank.waiting);
                opening_ |= bit(next);
                offer(act_, std::max(act_time(next), now), next);
            }
        } else if (policy_ == RowPolicy::open && bank.waiting != 0) {
            close_for_another(bank, now);
        }
    }
    while (head_ != tail_ && (waiting_ & bit(head_ % most_window)) == 0) ++head_;
    while (queued_ != 0 && tail_ - head_ < window_) {
        enter(queue_[queue_head_], now);
        if (++queue_head_ == queue_.size()) queue_head_ = 0;
        --queued_;
    }
    find_cas(now);
}

// The rank that is due: its open banks precharge as soon as they may, then it rests.
void DramChannel::refresh() {
    const auto due =
        std::min_element(ranks_.begin(), ranks_.end(),
                         [](const Rank& a, const Rank& b) { return a.refresh_at < b.refresh_at; });
    const auto first_bank = static_cast<std::size_t>(due - ranks_.begin()) << rank_shift_;
    const std::size_t end_bank = first_bank + (std::size_t{1} << rank_shift_);
    const Picoseconds now = due->refresh_at;
    Picoseconds begin = now;
    for (std::size_t i = first_bank; i < end_bank; ++i) {
        const Bank& bank = banks_[i];
        const bool closes = bank.open || (bank.closing && bank.precharge_at >= now);
        const Picoseconds closed =
            closes ? std::max(now, bank.pre_ready) + timings_.tRP : bank.precharged;
        begin = latest(begin, closed, bank.act_ready);
    }
    for (std::size_t i = first_bank; i < end_bank; ++i) {
        Bank& bank = banks_[i];
        ++counts_[i].refreshes;
        const Picoseconds end = begin + timings_.tRFC;
        if (policy_ == RowPolicy::ideal) {
            bank.cas_ready = end;
            continue;
        }
        bank.open = bank.closing = false;
        bank.act_ready = end;
        ready_ &= ~bank.waiting;
        opening_ &= ~bank.waiting;
        if (bank.waiting != 0) opening_ |= bit(oldest(bank.waiting));
    }
    due->refresh_at += timings_.tREFI;
    refresh_at_ = std::min_element(ranks_.begin(), ranks_.end(), [](const Rank& a, const Rank& b) {
                      return a.refresh_at < b.refresh_at;
                  })->refresh_at;
    find_act(now);
    find_cas(now);
}

bool DramChannel::step(DramRequest& served) {
    assert(head_ != tail_);
    const Picoseconds now = next();
    if (cas_.at == now && act_.at != now && refresh_at_ != now) {
        served = slots_[cas_.slot];
        serve(cas_.slot, now);
        return true;
    }
    if (refresh_at_ == now) {
        refresh();
    } else {
        activate(act_.slot, now);
    }
    return false;
}

}  // namespace pagelens
