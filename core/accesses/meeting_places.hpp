// Who has come to which place, and who waits there: for processes that are merged (job.cpp), and
// for the time of their segments (rank_paths.cpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/accesses/meeting.hpp"

namespace pagelens {

inline constexpr std::uint32_t nowhere = ~0u;

// What a process calls the places of a job.
struct KnownPlaces {
    std::vector<std::uint32_t> of_job;  // [place of the process]; nowhere: none
    // [place of the process] the turn of its first coming; nowhere: it never comes. Earlier turns
    // happened before the trace began, and nobody waits for them.
    std::vector<std::uint32_t> first_turns;
};

class MeetingPlaces {
  public:
    // Processes that never come to a place, or have ended, keep nobody waiting there.
    // Throws std::invalid_argument if two lists of a process differ in length.
    explicit MeetingPlaces(std::span<const KnownPlaces* const> processes) {
        for (const KnownPlaces* known : processes) {
            if (known->of_job.size() != known->first_turns.size())
                throw std::invalid_argument("places, first turns: one number for each place");
            const auto process = static_cast<std::uint32_t>(places_of_.size());
            places_of_.emplace_back();
            for (std::size_t place = 0; place < known->of_job.size(); ++place) {
                const std::uint32_t number = known->of_job[place];
                if (number == nowhere || known->first_turns[place] == nowhere) continue;
                if (number >= places_.size()) places_.resize(std::size_t{number} + 1);
                places_[number].comers.push_back({process, known->first_turns[place]});
                places_of_.back().push_back(number);
            }
        }
    }

    // A process does this turn. `go_on(process)` is called for all that waited for it alone.
    template <class GoOn>
    void come(std::uint32_t process, std::uint32_t place, std::uint32_t turn, const GoOn& go_on) {
        if (place >= places_.size()) return;
        for (Comer& comer : places_[place].comers)
            if (comer.process == process) comer.turns = std::max(comer.turns, turn + 1);
        let_go(places_[place], go_on);
    }

    template <class GoOn>
    void end(std::uint32_t process, const GoOn& go_on) {
        for (const std::uint32_t place : std::exchange(places_of_[process], {}))
            come(process, place, nowhere - 1, go_on);
    }

    // Returns whether all others have done this turn. If not, the process waits for them.
    bool pass(std::uint32_t process, const Meeting& meeting) {
        const Waiter waiter{process, meeting.turn, meeting.sends};
        if (meeting.place >= places_.size() || others_came(places_[meeting.place], waiter))
            return true;
        places_[meeting.place].waiters.push_back(waiter);
        ++waiting_;
        senders_ += meeting.sends;
        return false;
    }

    // Used where the records contradict each other, and nobody could go on. Lets those go that wait
    // as senders, because these may not have waited in the traced run; if there are none, all.
    template <class GoOn>
    void break_up(const GoOn& go_on) {
        const bool only_senders = senders_ > 0;
        for (Place& place : places_)
            std::erase_if(place.waiters, [&](const Waiter& waiter) {
                if (only_senders && !waiter.sends) return false;
                remove(waiter);
                go_on(waiter.process);
                return true;
            });
    }

    [[nodiscard]] std::size_t waiting() const { return waiting_; }

  private:
    struct Comer {
        std::uint32_t process, turns;
    };
    struct Waiter {
        std::uint32_t process, turn;
        bool sends;
    };
    struct Place {
        std::vector<Comer> comers;
        std::vector<Waiter> waiters;
    };

    // Nobody waits for itself: a receiver may never come for this turn, only for others.
    static bool others_came(const Place& place, const Waiter& waiter) {
        return std::ranges::all_of(place.comers, [&waiter](const Comer& comer) {
            return comer.turns > waiter.turn || comer.process == waiter.process;
        });
    }

    template <class GoOn>
    void let_go(Place& place, const GoOn& go_on) {
        std::erase_if(place.waiters, [&](const Waiter& waiter) {
            if (!others_came(place, waiter)) return false;
            remove(waiter);
            go_on(waiter.process);
            return true;
        });
    }

    void remove(const Waiter& waiter) {
        --waiting_;
        senders_ -= waiter.sends;
    }

    std::vector<Place> places_;
    std::vector<std::vector<std::uint32_t>> places_of_;  // [process] where it comes
    std::size_t waiting_ = 0, senders_ = 0;              // of them
};

}  // namespace pagelens
