// Which object a line belongs to at this moment.
//
// An object is a call site that allocates: all its blocks are one object. A line belongs to the
// block born last among those that touch it, and stays with it until another block takes the line
// or its page is unmapped (what is freed is the allocator's, but written back for its owner). The
// allocator's header in front of a block goes with it where its line is no block's.
// Memory without a block belongs to its variable, or to its region: the data of a module, a stack,
// the heap, a mapping.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/accesses/intervals.hpp"
#include "core/accesses/page_map.hpp"
#include "core/accesses/trace_format.hpp"
#include "core/accesses/trace_reader.hpp"
#include "core/address/units.hpp"

namespace pagelens {

using ObjectIndex = std::uint16_t;

// The origin of an object. The object's index is its place in ObjectMap::origins().
struct ObjectOrigin {
    enum class Kind : std::uint8_t { kernel, heap, stack, mapping, module, variable, call_site };
    Kind kind;
    std::uint64_t id;  // module, variable: its index; call_site: its id
};

class ObjectMap {
  public:
    ObjectMap(const std::vector<ModuleDefinition>& modules,
              const std::vector<StaticVariable>& variables,
              const std::vector<RegionDefinition>& regions,
              const std::vector<CallSiteDefinition>& call_sites) {
        using Kind = ObjectOrigin::Kind;
        origins_ = {{Kind::kernel, 0}, {Kind::heap, 0}, {Kind::stack, 0}, {Kind::mapping, 0}};
        ObjectIndex of_loader = mapping;
        for (std::size_t i = 0; i < modules.size(); ++i) {
            if (is_ours(modules[i])) continue;
            const ObjectIndex object = add({Kind::module, i}, mapping);
            paint(regions_, modules[i].start, modules[i].size, object);
            if (file_name(modules[i]).starts_with("ld-")) of_loader = object;
        }
        for (const ModuleDefinition& module : modules)
            if (is_ours(module)) paint(regions_, module.start, module.size, of_loader);
        for (std::size_t i = 0; i < variables.size(); ++i) {
            const ObjectIndex object = add({Kind::variable, i}, mapping);
            paint(regions_, variables[i].start, variables[i].size, object);
        }
        for (const RegionDefinition& region : regions)
            paint(regions_, region.start, region.size,
                  region.kind == RegionKind::stack ? stack : heap);
        for (const CallSiteDefinition& site : call_sites)
            if (site.object == 0 && !sites_.contains(site.id))
                sites_[site.id] = add({Kind::call_site, site.id}, heap);
        for (const CallSiteDefinition& site : call_sites)
            if (site.object != 0 && !sites_.contains(site.id))
                sites_[site.id] = object_of_site(site.object);
    }

    [[nodiscard]] const std::vector<ObjectOrigin>& origins() const { return origins_; }

    // Returns whether there were more call sites than an op can number. The rest counts as heap.
    [[nodiscard]] bool overflowed() const { return overflowed_; }

    [[nodiscard]] ObjectIndex object_of_site(std::uint64_t site) const {
        const auto found = sites_.find(site);
        return found == sites_.end() ? heap : found->second;
    }

    // Virtual pages are numbered when they are first asked for. A caller that asks for a line's
    // object, and keeps data on its page, has to find the page only once.
    static constexpr std::uint32_t no_place = PageMap::absent;
    [[nodiscard]] std::uint32_t place(std::uint64_t page_number) {
        const std::uint32_t place = places_.find(page_number);
        return place != no_place ? place : add_place(page_number);
    }
    // Returns the place of a page that was asked for before, else no_place.
    [[nodiscard]] std::uint32_t known_place(std::uint64_t page_number) {
        return places_.find(page_number);
    }

    [[nodiscard]] ObjectIndex at(std::uint64_t line) {
        return at(line, place(line / lines_per_page));
    }
    // Returns the line's object; `place` is that of its page.
    [[nodiscard]] ObjectIndex at(std::uint64_t line, std::uint32_t place) {
        Page& page = pages_[place];
        if (page.painted != none) {
            const ObjectIndex object = painted_[page.painted][line % lines_per_page];
            if (object != 0) return object;
        }
        if (page.epoch == epoch_) return page.object;
        return look_up(line, page);
    }

    void birth(std::uint64_t address, std::uint64_t bytes, std::uint64_t site) {
        if (bytes == 0) return;
        const ObjectIndex object = object_of_site(site);
        const std::uint64_t begin = address / line_bytes;
        const std::uint64_t end = (address + bytes - 1) / line_bytes + 1;
        if (has_header_before(address)) paint_line(begin - 1, object);
        if (end - begin <= small_lines) {
            for (std::uint64_t line = begin; line < end; ++line) paint_line(line, object);
        } else {
            clear_paint(begin, end);
            blocks_.assign(begin, end, object);
            ++epoch_;
        }
    }

    // Gives a line that is touched just before a block is born to the block. That is done if one of
    // the headers before and behind the block may lie in the line, and the line is no block's.
    void claim(std::uint64_t line, std::uint64_t address, std::uint64_t bytes, std::uint64_t site) {
        const std::uint64_t begin = (address - std::min(address, header_bytes)) / line_bytes;
        const std::uint64_t last = (address + bytes + 2 * header_bytes - 1) / line_bytes;
        if (bytes == 0 || line < begin || line > last) return;
        if (const ObjectIndex now = at(line); now == heap || now == mapping)
            paint_line(line, object_of_site(site));
    }

    void unmap(std::uint64_t first_page, std::uint64_t pages) {
        const std::uint64_t begin = first_page * lines_per_page;
        const std::uint64_t end = (first_page + pages) * lines_per_page;
        clear_paint(begin, end);
        blocks_.assign(begin, end, 0);
        ++epoch_;
    }

  private:
    static constexpr ObjectIndex heap = 1, stack = 2, mapping = 3;
    static constexpr std::size_t objects_limit = std::numeric_limits<ObjectIndex>::max();
    // The header in front of a block of glibc's malloc. The next header begins at most that many
    // bytes behind the block.
    static constexpr std::uint64_t header_bytes = 16;
    static constexpr std::uint64_t small_lines = 16 * lines_per_page;  // painted line by line
    static constexpr std::uint32_t none = ~std::uint32_t{0};

    struct Page {
        std::uint64_t number;
        std::uint64_t epoch;    // `object` holds while this is the map's epoch
        std::uint32_t painted;  // index into painted_
        ObjectIndex object;     // of all lines of the page that are not painted
    };

    static std::string_view file_name(const ModuleDefinition& module) {
        return std::string_view(module.path).substr(module.path.rfind('/') + 1);
    }
    // Only the loader writes to the library that tracing puts into a program, so it is the
    // loader's.
    static bool is_ours(const ModuleDefinition& module) {
        return file_name(module).starts_with("libpagelens_");
    }

    ObjectIndex add(ObjectOrigin origin, ObjectIndex otherwise) {
        if (origins_.size() >= objects_limit) {
            overflowed_ = true;
            return otherwise;
        }
        origins_.push_back(origin);
        return static_cast<ObjectIndex>(origins_.size() - 1);
    }

    // A block at the start of a line has its header in the line before. One at the start of a page
    // may be a mapping, which has none: what lies before it is somebody else's, unless it is heap.
    bool has_header_before(std::uint64_t address) {
        if (address % line_bytes >= header_bytes || address < line_bytes) return false;
        const ObjectIndex before = at(address / line_bytes - 1);
        return before == heap || (before == mapping && address % page_bytes != 0);
    }

    static void paint(Intervals<ObjectIndex>& map, std::uint64_t start, std::uint64_t bytes,
                      ObjectIndex object) {
        if (bytes == 0) return;
        const std::uint64_t last = start + std::min(bytes - 1, ~start);
        map.assign(start / line_bytes, last / line_bytes + 1, object);
    }

    [[gnu::noinline]] std::uint32_t add_place(std::uint64_t page_number) {
        const auto place = static_cast<std::uint32_t>(pages_.size());
        pages_.push_back({page_number, 0, none, 0});
        places_.set(page_number, place);
        return place;
    }

    [[gnu::noinline]] ObjectIndex look_up(std::uint64_t line, Page& page) {
        const std::uint64_t begin = page.number * lines_per_page;
        const std::uint64_t end = begin + lines_per_page;
        auto found = blocks_.find(line, begin, end);
        if (found.value == 0) {
            const auto region = regions_.find(line, begin, end);
            found = {region.value == 0 ? mapping : region.value, found.whole && region.whole};
        }
        if (found.whole) {
            page.object = found.value;
            page.epoch = epoch_;
        }
        return found.value;
    }

    void paint_line(std::uint64_t line, ObjectIndex object) {
        Page& page = pages_[place(line / lines_per_page)];
        if (page.painted == none) {
            page.painted = static_cast<std::uint32_t>(painted_.size());
            painted_.emplace_back();
        }
        painted_[page.painted][line % lines_per_page] = object;
    }

    // Visits the pages of the range or all known pages, whichever are fewer: a range may be huge.
    void clear_paint(std::uint64_t begin, std::uint64_t end) {
        const auto clear = [&](Page& page) {
            if (page.painted == none) return;
            const std::uint64_t first = page.number * lines_per_page;
            for (std::uint64_t i = 0; i < lines_per_page; ++i)
                if (first + i >= begin && first + i < end) painted_[page.painted][i] = 0;
        };
        const std::uint64_t first = begin / lines_per_page;
        const std::uint64_t last = (end - 1) / lines_per_page;
        if (begin >= end) return;
        if (last - first >= pages_.size()) {
            for (Page& page : pages_) clear(page);
            return;
        }
        for (std::uint64_t number = first; number <= last; ++number) {
            const std::uint32_t known = known_place(number);
            if (known != no_place) clear(pages_[known]);
        }
    }

    std::vector<ObjectOrigin> origins_;
    bool overflowed_ = false;
    std::unordered_map<std::uint64_t, ObjectIndex> sites_;
    Intervals<ObjectIndex> regions_;  // fixed
    Intervals<ObjectIndex> blocks_;   // large blocks
    std::uint64_t epoch_ = 1;         // grows with every change of blocks_
    PageMap places_;                  // page number -> its place in pages_
    std::vector<Page> pages_;
    std::vector<std::array<ObjectIndex, lines_per_page>> painted_;  // small blocks; 0: not painted
};

}  // namespace pagelens
