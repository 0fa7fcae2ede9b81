#include "tracer/touched_pages.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "core/address/units.hpp"

namespace pagelens {

namespace {

// Of an entry of /proc/PID/pagemap (the kernel's admin-guide/mm/pagemap.rst).
constexpr std::uint64_t present = std::uint64_t{1} << 63, swapped = std::uint64_t{1} << 62,
                        of_file_or_shared = std::uint64_t{1} << 61;

bool has_frame(std::uint64_t entry) {
    return (entry & (present | swapped)) != 0 && (entry & of_file_or_shared) == 0;
}

struct Range {
    std::uint64_t begin, end;
};

// Mappings that the program may access.
std::vector<Range> accessible(const char* maps) {
    std::vector<Range> found;
    std::ifstream in(maps);
    for (std::string line; std::getline(in, line);) {
        unsigned long begin = 0, end = 0;
        char may[5] = {};
        const bool known = std::sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, may) == 3;
        const bool program = line.find("[vdso]") == line.npos && line.find("[vvar") == line.npos &&
                             line.find("[vsyscall]") == line.npos;
        if (known && program && may[0] == 'r') found.push_back({begin, end});
    }
    return found;
}

}  // namespace

void TouchedPages::scan(std::uint64_t begin, std::uint64_t end, bool (*owns)(std::uint64_t),
                        const std::function<void(std::uint64_t, std::uint64_t)>& emit) const {
    const int file = ::open(pagemap_, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    std::vector<std::uint64_t> entries(8192);
    for (const Range& mapping : accessible(maps_)) {
        const std::uint64_t first = std::max(mapping.begin, begin) / page_bytes;
        const std::uint64_t last = std::min(mapping.end, end) / page_bytes;
        for (std::uint64_t page = first; page < last;) {
            const std::uint64_t wanted = std::min<std::uint64_t>(last - page, entries.size());
            const ::ssize_t got = ::pread(file, entries.data(), wanted * sizeof(std::uint64_t),
                                          static_cast<::off_t>(page * sizeof(std::uint64_t)));
            if (got < static_cast<::ssize_t>(sizeof(std::uint64_t))) break;
            const std::uint64_t count = static_cast<std::uint64_t>(got) / sizeof(std::uint64_t);
            for (std::uint64_t i = 0; i < count; ++i) {
                if (!has_frame(entries[i])) continue;
                const std::uint64_t from = i;
                while (i < count && has_frame(entries[i])) ++i;
                if (!owns((page + from) * page_bytes)) emit(page + from, i - from);
            }
            page += count;
        }
    }
    ::close(file);
}

}  // namespace pagelens
