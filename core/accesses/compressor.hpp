// Compresses chunks with zstd, from any thread. A traced program may hold the lock of its allocator
// while it waits for this, so all memory comes from operator new, which the tracers define.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

struct ZSTD_CCtx_s;

namespace pagelens {

class Compressor {
  public:
    // The most bytes that compressing so many bytes takes.
    [[nodiscard]] static std::size_t bound(std::size_t bytes);

    // Compresses `from` into `to`, which has bound(from.size()) bytes at least. Returns how many it
    // filled.
    std::size_t compress(std::span<std::uint8_t> to, std::span<const std::uint8_t> from);

  private:
    struct Free {
        void operator()(ZSTD_CCtx_s* context) const;
    };
    using Context = std::unique_ptr<ZSTD_CCtx_s, Free>;

    std::mutex mutex_;
    std::vector<Context> idle_;  // as many as threads have compressed at once
};

}  // namespace pagelens
