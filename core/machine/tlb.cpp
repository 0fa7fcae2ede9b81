#include "core/machine/tlb.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <string>

#include "core/machine/clones.hpp"

namespace pagelens {

namespace {

constexpr std::uint32_t most_entries = 1u << 20;

TlbArray make_array(TlbShape shape, bool folded) {
    const auto [entries, ways] = shape;
    if (entries > most_entries || ways < 1 || ways > LruOrder::most_ways || entries % ways != 0 ||
        !std::has_single_bit(entries / ways))
        throw std::invalid_argument("entries / ways must be a power of two, not " +
                                    std::to_string(entries) + " / " + std::to_string(ways));
    return TlbArray(entries, ways, folded);
}

}  // namespace

TlbCounters& TlbCounters::operator+=(const TlbCounters& other) {
    lookups += other.lookups;
    for (unsigned size = 0; size < page_sizes; ++size) {
        stlb_hits[size] += other.stlb_hits[size];
        for (unsigned i = 0; i < table_levels; ++i) walks[size][i] += other.walks[size][i];
    }
    return *this;
}

TlbCounters::BySize TlbCounters::walks_completed() const {
    BySize result{};
    for (unsigned size = 0; size < page_sizes; ++size)
        result[size] = std::accumulate(walks[size].begin(), walks[size].end(), std::uint64_t{0});
    return result;
}

TlbCounters::BySize TlbCounters::dtlb_misses() const {
    BySize result = walks_completed();
    for (unsigned size = 0; size < page_sizes; ++size) result[size] += stlb_hits[size];
    return result;
}

TlbCounters::ByLevel TlbCounters::walker_loads() const {
    ByLevel result{};
    for (unsigned size = 0; size < page_sizes; ++size)
        for (unsigned first = size; first < table_levels; ++first)
            for (unsigned i = size; i <= first; ++i) result[i] += walks[size][first];
    return result;
}

TlbCounters::ByLevel TlbCounters::structure_hits() const {
    ByLevel result{};
    for (unsigned size = 0; size < page_sizes; ++size)
        for (unsigned i = 1; i < table_levels; ++i) result[i] += walks[size][i - 1];
    return result;
}

Tlb::Tlb(const TlbForm& form) : ideal_(form.ideal) {
    if (form.arrays.size() > 16) throw std::invalid_argument("more than 16 arrays");
    for (const TlbForm::Array& array : form.arrays) {
        arrays_.push_back(make_array(array.shape, array.folded));
        place(array, static_cast<std::uint8_t>(arrays_.size() - 1));
    }
    for (unsigned level = 2; level <= table_levels; ++level) {
        const TlbShape shape = form.structure_caches[level - 1];
        if (shape.entries == 0) continue;
        if (structure_[level - 1].at != none)
            throw std::invalid_argument(
                "the second level is the page-directory-entry cache; there is no other");
        structure_[level - 1] = {static_cast<std::uint8_t>(arrays_.size()),
                                 static_cast<std::uint8_t>(level_shift(level))};
        arrays_.push_back(make_array(shape, false));
    }
    if (std::ranges::none_of(sizes_, [](const Way& way) { return way.first != none; }))
        throw std::invalid_argument("no first level holds pages of any size");
}

void Tlb::place(const TlbForm::Array& array, std::uint8_t at) {
    if (array.level != 1 && array.level != 2)
        throw std::invalid_argument("a level is 1 or 2, not " + std::to_string(array.level));
    if (array.directory) {
        if (array.level != 2 || array.holds[index(PageSize::small)] || structure_[1].at != none)
            throw std::invalid_argument(
                "page-directory entries are held by one array of level 2, instead of 4 KiB pages");
        structure_[1] = {at, static_cast<std::uint8_t>(level_shift(2))};
    }
    unsigned largest = page_sizes;  // that it holds
    for (unsigned size = 0; size < page_sizes; ++size) {
        if (array.holds[size]) largest = size;
        if (!array.holds[size] && !array.pieces[size]) continue;
        if (array.pieces[size] && (array.level != 1 || array.holds[size] || largest >= size))
            throw std::invalid_argument(
                "only a first level holds pieces, of pages larger than those that it holds");
        std::uint8_t& place = array.level == 1 ? sizes_[size].first : sizes_[size].second;
        if (place != none)
            throw std::invalid_argument("two arrays of one level hold pages of the same size");
        place = at;
        if (array.level == 1) {
            sizes_[size].shift =
                static_cast<std::uint8_t>(page_shift(PageSize{static_cast<std::uint8_t>(largest)}));
            sizes_[size].kind = static_cast<std::uint8_t>(1 + largest);
        }
    }
    if (largest == page_sizes && !array.directory)
        throw std::invalid_argument("an array holds no page size");
}

Tlb::FirstLevel Tlb::first_level(PageSize size) const {
    check(size);
    const Way& way = sizes_[index(size)];
    const TlbArray& array = arrays_[way.first];
    return {array.sets(), array.ways(), PageSize{static_cast<std::uint8_t>(way.kind - 1)}};
}

void Tlb::check(PageSize size) const {
    if (index(size) >= page_sizes || !supports(size))
        throw std::invalid_argument("this TLB has no first level for pages of that size");
}

void Tlb::check(std::span<const std::uint64_t> addresses) {
    std::uint64_t bits = 0;
    for (const std::uint64_t address : addresses) bits |= address;
    if (bits >> virtual_bits != 0)
        throw std::invalid_argument("a virtual address has more than 48 bits");
}

PAGELENS_CLONES void Tlb::translate(std::span<const std::uint64_t> addresses, PageSize size,
                                    TlbCounters& counters) {
    check(size);
    check(addresses);
    TlbCounters here;
    here.lookups = addresses.size();
    const Way way = sizes_[index(size)];
    if (!ideal_)
        for (const std::uint64_t address : addresses)
            look_up(address, size, way, here, [](unsigned, unsigned) {});
    counters += here;
}

PAGELENS_CLONES void Tlb::translate(std::span<const std::uint64_t> addresses,
                                    std::span<const PageSize> sizes, TlbCounters& counters) {
    if (addresses.size() != sizes.size())
        throw std::invalid_argument("as many page sizes as addresses");
    std::ranges::for_each(sizes, [this](PageSize size) { check(size); });
    check(addresses);
    TlbCounters here;
    for (std::size_t i = 0; i < addresses.size(); ++i)
        access(addresses[i], sizes[i], 1, here, [](unsigned, unsigned) {});
    counters += here;
}

void Tlb::translate(std::span<const std::uint64_t> addresses, std::span<const PageSize> sizes,
                    const PageTables& tables, TlbCounters& counters, WalkReads& reads) {
    if (addresses.size() != sizes.size())
        throw std::invalid_argument("as many page sizes as addresses");
    std::ranges::for_each(sizes, [this](PageSize size) { check(size); });
    check(addresses);
    reads.clear();
    TlbCounters here;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
        const VirtualAddress address(addresses[i]);
        access(addresses[i], sizes[i], 1, here, [&](unsigned first, unsigned last) {
            if (!tables.maps(address, sizes[i]))
                throw std::invalid_argument("translation " + std::to_string(i) +
                                            " is of a page without page tables; map it first");
            const auto entries = tables.entries(address, sizes[i]);
            for (unsigned level = first; level >= last; --level) {
                reads.entries.push_back(entries[level - 1]);
                reads.translations.push_back(static_cast<std::uint32_t>(i));
            }
        });
    }
    counters += here;
}

void Tlb::invalidate(VirtualPage first, std::uint64_t count) {
    const std::uint64_t last = first.raw() + count - 1;
    if (count == 0) return;
    for (TlbArray& array : arrays_) {
        array.forget_if([=](std::uint64_t number, unsigned kind) {
            if (kind == directory_kind) return true;
            const unsigned bits =
                page_shift(PageSize{static_cast<std::uint8_t>(kind - 1)}) - page_bits;
            return number >= first.raw() >> bits && number <= last >> bits;
        });
    }
}

void Tlb::flush() {
    for (TlbArray& array : arrays_) array.forget_if([](std::uint64_t, unsigned) { return true; });
}

}  // namespace pagelens
