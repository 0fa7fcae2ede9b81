#include "tracer/call_sites.hpp"

#include <utility>
#include <vector>

namespace pagelens {

namespace {

// Frames of the allocator on top of those that make the site: operator new, its helpers, malloc.
constexpr std::size_t stack_depth = call_site_depth + 8;

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014), chained.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    std::uint64_t z = hash + value + 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

}  // namespace

CallSites::CallSites(Modules& modules, Define define)
    : modules_(modules), define_(std::move(define)) {}

std::uint32_t CallSites::number(std::span<const std::uint64_t> stack) {
    // A return address may be the first byte after its function: the call itself lies before it.
    std::size_t first = 0;
    while (first < stack.size() && modules_.role_at(stack[first] - 1) != ModuleRole::program)
        ++first;
    if (first == stack.size()) first = 0;  // libc's own blocks: the allocator is all there is

    std::vector<CodeAddress> frames;
    std::uint64_t hash = 0;
    for (const std::uint64_t address : stack.subspan(first)) {
        if (frames.size() == call_site_depth) break;
        const auto place = modules_.find(address - 1);
        if (!place) continue;  // generated code: its address says nothing later
        frames.push_back({place->module, place->offset + 1});
        hash = mix(mix(hash, place->module), place->offset);
    }
    if (frames.empty()) return 0;

    const std::lock_guard lock(mutex_);
    const auto [known, is_new] =
        numbers_.try_emplace(hash, static_cast<std::uint32_t>(numbers_.size() + 1));
    if (is_new) define_(known->second, frames);
    return known->second;
}

std::uint32_t CallSiteCache::number(const ShadowStack& stack) {
    std::array<std::uint64_t, stack_depth> buffer;
    const std::span<const std::uint64_t> addresses(buffer.data(), stack.snapshot(buffer));
    std::uint64_t hash = modules_.generation() + 1;
    for (const std::uint64_t address : addresses) hash = mix(hash, address);
    Entry& entry = entries_[hash % entries_.size()];
    if (entry.hash != hash) {
        entry.site = sites_.number(addresses);
        entry.hash = hash;
    }
    return entry.site;
}

}  // namespace pagelens
