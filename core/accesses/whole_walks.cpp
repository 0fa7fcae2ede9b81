#include "core/accesses/whole_walks.hpp"

#include <algorithm>

#include "core/accesses/sweep_program.hpp"

namespace pagelens {

std::optional<WholeWalks> WholeWalks::of(const SweepProgram& program) {
    const SweepLoops& loops = program.loops();
    WholeWalks walks;
    walks.threads_ = program.threads();
    for (unsigned array = 0; array < loops.array_pages.size(); ++array)
        walks.first_pages_.push_back(program.first_page(array));
    walks.first_pages_.push_back(program.pages().size());
    walks.mapped_by_.assign(loops.array_pages.size(), loops.sweeps.size());
    for (const Sweep& sweep : loops.sweeps) {
        OfSweep of{program.turns(sweep), sweep.streams.size(), {}};
        of.arrays.resize(loops.array_pages.size());
        for (unsigned number = 0; number < sweep.streams.size(); ++number) {
            const SweepStream& stream = sweep.streams[number];
            OfSweep::OfArray& array = of.arrays[stream.array];
            if (stream.walk != Walk::parts || stream.shift != 0 || stream.stride != 1 ||
                program.walked(stream) != loops.array_pages[stream.array] ||
                array.stream != no_stream)
                return std::nullopt;
            array = {number, stream.kind == StreamKind::stream_store,
                     stream.kind == StreamKind::write};
            std::size_t& mapped_by = walks.mapped_by_[stream.array];
            if (sweep.first_touch) mapped_by = std::min(mapped_by, walks.sweeps_.size());
            const std::uint64_t pages = program.walked(stream) / program.threads();  // at least
            walks.most_turns_a_page_ =
                std::max(walks.most_turns_a_page_, (of.turns + pages - 1) / pages);
        }
        if (!sweep.unmapped.empty()) return std::nullopt;
        if (!sweep.streams.empty()) walks.fewest_turns_ = std::min(walks.fewest_turns_, of.turns);
        walks.most_streams_ =
            std::max(walks.most_streams_, static_cast<unsigned>(sweep.streams.size()));
        walks.sweeps_.push_back(std::move(of));
    }
    return walks;
}

WholeWalks::Place WholeWalks::place_of(std::uint32_t page) const {
    const auto after = std::upper_bound(first_pages_.begin(), first_pages_.end(), page);
    const auto array = static_cast<unsigned>(after - first_pages_.begin()) - 1;
    const std::uint64_t pages = first_pages_[array + 1] - first_pages_[array];
    const std::uint64_t at = page - first_pages_[array];
    std::uint64_t thread = at * threads_ / pages;  // or the next one
    if (pages * (thread + 1) / threads_ <= at) ++thread;
    const std::uint64_t begin = pages * thread / threads_;
    return {array, static_cast<unsigned>(thread), at - begin,
            pages * (thread + 1) / threads_ - begin};
}

std::optional<WholeWalks::Visit> WholeWalks::visit(std::size_t sweep, const Place& place) const {
    const OfSweep& of = sweeps_[sweep];
    const OfSweep::OfArray& array = of.arrays[place.array];
    if (array.stream == no_stream) return std::nullopt;
    const auto turn = [&](std::uint64_t at) {
        return place.pages == of.turns ? at : (at * of.turns + place.pages - 1) / place.pages;
    };
    return Visit{turn(place.at), turn(place.at + 1), place.thread * of.streams + array.stream,
                 array.stores, array.writes_back};
}

}  // namespace pagelens
