#include "core/replay/rank_pages.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

namespace pagelens {

RankPages::RankPages(const Program& program, const Placement& placement, std::uint32_t ranks,
                     const Sampling& sampling, Listed listed, SlotPopulation population,
                     std::uint32_t kernel_frames, const NumaPlacing* numa)
    : ranks_(ranks),
      sampling_(sampling),
      listed_(listed),
      order_(placement.page_order()),
      node_frames_(placement.frames()),
      threads_(program.threads()),
      addresses_(program.pages()),
      numa_(numa),
      population_(std::move(population)),
      frames_(program.pages().size() * ranks, none),
      states_(program.pages().size()),
      shared_(program.pages().size()) {
    const bool advised =
        order_ == small_order && placement.heeds_advice() && !program.advised_pages().empty();
    if (advised) order_ = huge_order;
    if (order_ > small_order) find_blocks(program, advised);
    if (placement.base_order() > small_order)
        base_.emplace(program.pages(), placement.base_order(), ranks);
    if (ranks > 1) make_room_for_lists();
    large_.assign(blocks_.size() * ranks, none);
    const auto large_blocks = static_cast<std::uint32_t>(blocks_.size() * ranks);
    source_ = placement.open({ranks, static_cast<std::uint32_t>(states_.size()) + kernel_frames,
                              order_ == gigantic_order ? large_blocks : 0, program.pages()});
}

void RankPages::make_room_for_lists() {
    lists_.assign(states_.size(), none);
    rooms_.resize(states_.size());
    // Room for as many as independent frames would list; what is not used costs nothing.
    const double members = sampling_.members();
    const double of_all = listed_ == Listed::covered ? sampling_.period() : sampling_.colours();
    const double of_page = ranks_ * members / of_all;
    pool_.reserve(static_cast<std::size_t>(static_cast<double>(states_.size()) *
                                           (1.1 * of_page + std::min(members, of_page))));
}

// Groups the pages by the large page that they would lie in, and keeps the groups that are worth
// one. A large page lies in anonymous memory as a whole: none where a file is shown.
void RankPages::find_blocks(const Program& program, bool advised) {
    const std::span<const VirtualPage> pages = program.pages();
    const std::span<const Program::PageUse> uses = program.page_uses();
    const auto count = static_cast<std::uint32_t>(pages.size());
    HugeVector<std::uint32_t> by_address(count);
    std::iota(by_address.begin(), by_address.end(), 0u);
    const auto before = [&](std::uint32_t a, std::uint32_t b) { return pages[a] < pages[b]; };
    if (!std::is_sorted(pages.begin(), pages.end()))
        std::sort(by_address.begin(), by_address.end(), before);
    const auto shows_file = [&](VirtualPage first, VirtualPage end) {
        return std::ranges::any_of(program.file_pages(), [&](const VirtualRange& file) {
            return file.begin < end && first < file.end;
        });
    };
    const auto may_be_large = [&](std::uint64_t virtual_block) {
        const VirtualPage first(virtual_block << order_), end((virtual_block + 1) << order_);
        const bool asked = std::ranges::any_of(
            program.advised_pages(),
            [&](const VirtualRange& asks) { return asks.begin <= first && end <= asks.end; });
        return (asked || !advised) && !shows_file(first, end);
    };
    block_of_.assign(count, none);
    offset_of_.resize(count);
    block_pages_.reserve(count);
    for (std::uint32_t begin = 0; begin < by_address.size();) {
        const std::uint64_t virtual_block = pages[by_address[begin]].raw() >> order_;
        std::uint32_t end = begin, stored_to = 0;
        bool small = !may_be_large(virtual_block);
        for (; end < by_address.size() && pages[by_address[end]].raw() >> order_ == virtual_block;
             ++end) {
            stored_to += uses[by_address[end]].written;
            small |= uses[by_address[end]].shows_file;
        }
        if (stored_to * least_share >= 1u << order_ && !small) {
            const auto first = static_cast<std::uint32_t>(block_pages_.size());
            for (std::uint32_t i = begin; i < end; ++i) {
                const std::uint32_t page = by_address[i];
                block_of_[page] = static_cast<std::uint32_t>(blocks_.size());
                offset_of_[page] =
                    static_cast<std::uint32_t>(pages[page].raw() & ((1ull << order_) - 1));
                block_pages_.push_back(page);
            }
            blocks_.push_back({first, end - begin});
        }
        begin = end;
    }
}

MaybeFrame RankPages::alloc(std::uint32_t rank, std::uint32_t page, unsigned order,
                            unsigned thread) {
    if (numa_ == nullptr)
        return source_->alloc({.cpu = rank, .order = order, .page = page, .rank = rank});
    const std::uint32_t cpu = numa_->cpus[rank * threads_ + numa_->first_thread(page, thread)];
    const unsigned of_page = numa_->of_page.empty() ? 0 : numa_->of_page[page];
    Request request = request_by(numa_->policies[of_page], cpu, numa_->node_of_cpu[cpu], order,
                                 addresses_[page].raw() >> order, numa_->nodes());
    request.page = page;
    request.rank = rank;
    const auto given = source_->alloc(request);
    if (given || numa_->policies[of_page].mode != NumaMode::preferred_many) return given;
    // alloc_pages_preferred_many() and dequeue_hugetlb_folio_vma(): then all nodes and pools
    const unsigned least = base_ ? base_->order() : small_order;
    request.sparing = order > least;
    request.numas = request.pools = ~0ull;
    return source_->alloc(request);
}

void RankPages::take_for(std::span<const std::uint32_t> pages) {
    constexpr std::size_t ahead = 32;
    fresh_.clear();
    for (std::size_t i = 0; i < pages.size(); ++i) {
        if (i + ahead < pages.size()) {
            __builtin_prefetch(&states_[pages[i + ahead]], 1);
            __builtin_prefetch(&frames_[pages[i + ahead]], 1);
        }
        const std::uint32_t page = pages[i];
        if (mapped(page)) continue;
        give_back();
        states_[page] = unlisted;  // it may come again
        fresh_.push_back(page);
    }
    given_.resize(fresh_.size());
    if (source_->alloc_each({.cpu = 0}, fresh_, given_) < fresh_.size()) out_of_memory();
}

void RankPages::map_read(std::uint32_t page, std::uint32_t cached, unsigned thread) {
    if (mapped(page)) return;
    give_back();
    if (cached >= cache_.size()) cache_.resize(std::size_t{cached} + 1, none);
    if (cache_[cached] == none) {
        if (base_) {
            // Where this part was shown before, it was another page's: another file is shown now,
            // or another part of the file.
            const std::uint32_t part = 1u << base_->offset(page);
            BasePages::Cached& shown = base_->of_cache(page);
            if (shown.first == BasePages::none || (shown.parts & part) != 0)
                shown = {take_base(0, page, thread), 0};
            shown.parts |= part;
            cache_[cached] = shown.first + base_->offset(page);
        } else {
            const auto given = alloc(0, page, small_order, thread);
            if (!given) out_of_memory();
            cache_[cached] = given->raw();
            population_.add(cache_[cached]);
        }
    }
    std::fill_n(&frame_of(page, 0), ranks_, cache_[cached]);
    shared_[page] = true;
    list_sampled(page);
}

std::uint32_t RankPages::take_base(std::uint32_t rank, std::uint32_t page, unsigned thread) {
    const auto given = alloc(rank, page, base_->order(), thread);
    if (!given) out_of_memory();
    for (std::uint32_t i = 0; i < base_->frames(); ++i) population_.add(given->raw() + i);
    return given->raw();
}

void RankPages::unmap(std::uint32_t first, std::uint64_t count) {
    for (std::uint32_t page = first; page < first + count; ++page)
        if (mapped(page)) states_[page] = leaving;
    leaving_.push_back({first, count});
}

void RankPages::give_back_all() {
    for (const auto& [first, count] : leaving_) give_back(first, count);
    leaving_.clear();
}

void RankPages::give_back(std::uint32_t first, std::uint64_t count) {
    for (std::uint32_t page = first; page < first + count; ++page) {
        if (states_[page] != leaving) continue;
        states_[page] = unmapped;
        if (shared_[page]) {
            shared_[page] = false;
            std::fill_n(&frame_of(page, 0), ranks_, none);
            continue;
        }
        const std::uint32_t block = block_of_.empty() ? none : block_of_[page];
        for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
            if (in_large_page(block, rank)) continue;
            give_small(rank, page);
            frame_of(page, rank) = none;
        }
        if (block != none && --blocks_[block].mapped == 0) close_block(block);
    }
}

void RankPages::give_small(std::uint32_t rank, std::uint32_t page) {
    if (base_) {
        BasePages::Held& held = base_->of_rank(page, rank);
        if (--held.users != 0) return;
        for (std::uint32_t i = 0; i < base_->frames(); ++i) population_.remove(held.first + i);
        source_->free({cpu_of(rank), base_->order()}, Frame(held.first));
        return;
    }
    population_.remove(frame_of(page, rank));
    source_->free({cpu_of(rank), small_order}, Frame(frame_of(page, rank)));
}

Frame RankPages::take_frame(std::uint32_t rank) {
    give_back();
    const auto given =
        source_->alloc({.cpu = cpu_of(rank), .type = MigrateType::unmovable, .rank = rank});
    if (!given) out_of_memory();
    return *given;
}

void RankPages::close_block(std::uint32_t block) {
    const std::span<const std::uint32_t> pages(&block_pages_[blocks_[block].first],
                                               blocks_[block].pages);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        std::uint32_t& large = large_[std::size_t{block} * ranks_ + rank];
        if (large == none) continue;
        for (std::uint32_t i = 0; i < 1u << order_; ++i) population_.remove(large + i);
        source_->free({cpu_of(rank), order_}, Frame(large));
        large = none;
        for (const std::uint32_t page : pages) frame_of(page, rank) = none;
    }
}

RankPage* RankPages::room_for(std::uint32_t page, std::uint32_t length) {
    if (length > rooms_[page]) {  // to the end of the pool
        rooms_[page] = std::max(length, 2 * rooms_[page]);
        lists_[page] = static_cast<std::uint32_t>(pool_.size());
        pool_.resize(pool_.size() + rooms_[page]);
    }
    states_[page] = first_list + lists_[page];
    return pool_.data() + lists_[page];
}

void RankPages::list_ranks(std::uint32_t page) {
    const std::uint32_t* const frames = &frames_[std::size_t{page} * ranks_];
    states_[page] = unlisted;
    std::array<std::uint32_t, 1u << Sampling::most_colour_bits> counts{};
    std::uint32_t length = 0;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        const std::uint32_t member = member_of(frames[rank]);
        if (member != Sampling::none) length += counts[member]++ == 0 ? 2 : 1;
    }
    if (length == 0) return;
    std::array<RankPage*, counts.size()> next;  // of each member that counts
    RankPage* at = room_for(page, length);
    RankPage* head = at;
    for (std::uint32_t member = 0; member < sampling_.members(); ++member) {
        if (counts[member] == 0) continue;
        head = at;
        *head = {counts[member], static_cast<std::uint16_t>(member), 0};
        next[member] = at + 1;
        at += counts[member] + 1;
    }
    head->watched = 1;
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        const std::uint32_t member = member_of(frames[rank]);
        if (member == Sampling::none) continue;
        *next[member]++ = {frames[rank], static_cast<std::uint16_t>(rank), watched(frames[rank])};
    }
}

void RankPages::out_of_memory() const {
    throw OutOfMemory("the job needs more memory than the node's " + std::to_string(node_frames_) +
                      " frames leave; use fewer ranks or a smaller problem");
}

}  // namespace pagelens
