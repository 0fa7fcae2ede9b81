#include "tracer/inherited.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/address/units.hpp"

namespace pagelens {

namespace {

// Documentation/admin-guide/mm/pagemap.rst of Linux.
constexpr std::uint64_t present = std::uint64_t{1} << 63, swapped = std::uint64_t{1} << 62;
constexpr std::uint64_t of_file = std::uint64_t{1} << 61;
// Larger mappings are reserved addresses, as sanitizers have them. To look through them takes long.
constexpr std::uint64_t most_pages = std::uint64_t{1} << 24;
constexpr std::uint64_t end_of_addresses = std::uint64_t{1} << 47;

}  // namespace

std::vector<PageRun> pages_in_memory(const std::string& folder) {
    std::vector<PageRun> found;
    std::ifstream maps(folder + "/maps");
    const int pagemap = ::open((folder + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC);
    if (pagemap < 0) return found;
    std::vector<std::uint64_t> states;
    for (std::string text; std::getline(maps, text);) {
        std::istringstream in(text);
        std::uint64_t begin = 0, end = 0;
        char dash = 0;
        std::string perms;
        in >> std::hex >> begin >> dash >> end >> perms;
        if (!in || end > end_of_addresses || perms[0] != 'r' || perms[3] != 'p') continue;
        std::uint64_t page = begin / page_bytes;
        const std::uint64_t end_page = end / page_bytes;
        if (end_page - page > most_pages) continue;
        bool goes_on = false;
        while (page < end_page) {
            states.resize(std::min<std::uint64_t>(end_page - page, 8192));
            const std::size_t bytes = states.size() * sizeof states[0];
            if (::pread(pagemap, states.data(), bytes,
                        static_cast<off_t>(page * sizeof states[0])) != static_cast<ssize_t>(bytes))
                break;
            for (const std::uint64_t state : states) {
                const bool is_ours = (state & (present | swapped)) != 0 && (state & of_file) == 0;
                if (is_ours && goes_on)
                    ++found.back().count;
                else if (is_ours)
                    found.push_back({page, 1});
                goes_on = is_ours;
                ++page;
            }
        }
    }
    ::close(pagemap);
    return found;
}

}  // namespace pagelens
