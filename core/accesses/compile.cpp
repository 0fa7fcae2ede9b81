#include "core/accesses/compile.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "core/accesses/compiler.hpp"

namespace pagelens {

bool is_exact_for(const TraceHeader& header, CacheShape l1) {
    return header.exact_for.empty() ||
           std::any_of(header.exact_for.begin(), header.exact_for.end(), [&](CacheShape family) {
               return l1.sets >= family.sets && l1.ways >= family.ways;
           });
}

void check(const TraceHeader& header, const CompileOptions& options) {
    const auto require = [](bool good, const char* what) {
        if (!good) throw std::invalid_argument(what);
    };
    require(options.page_bits >= page_bits && options.page_bits <= 30, "page_bits is not 12 to 30");
    for (const auto& [cache, threads] : options.private_caches) {
        require(threads >= 1, "a private cache belongs to no thread");
        require(std::has_single_bit(cache.sets) && cache.sets >= lines_per_page,
                "a private cache's sets are not a power of two from 64 on");
        require(cache.ways >= 1 && cache.ways <= 64, "a private cache's ways are not 1 to 64");
        require(
            line_bits + static_cast<unsigned>(std::countr_zero(cache.sets)) <= options.page_bits,
            "a private cache is indexed by address bits above the page shift");
    }
    require(options.sample.sets != 0, "a sample has no sets");
    require(options.sample.sets == all_line_sets || options.interval_instructions != 0,
            "lines are sampled of programs in intervals only");
    if (options.private_caches.empty()) return;
    require(options.private_caches[0].threads == 1, "the first private cache is shared");
    require(is_exact_for(header, options.private_caches[0].shape),
            "the trace is not exact for this first-level cache");
}

std::unique_ptr<const CompiledTrace> compile(const TraceReader& reader,
                                             const CompileOptions& options, const WalkPoll& poll) {
    check(reader.header(), options);
    TraceWalk walk(reader, options.sample.sets);
    detail::Compiler compiler(reader, walk, options);
    walk.run(compiler, poll);
    return compiler.finish();
}

}  // namespace pagelens
