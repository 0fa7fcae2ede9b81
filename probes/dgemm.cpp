#include "probes/dgemm.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>

#include "core/random/philox.hpp"
#include "probes/clock.hpp"
#include "probes/failure.hpp"
#include "probes/stop.hpp"
#include "probes/team.hpp"

namespace pagelens::probes {
namespace {

constexpr std::size_t looked_at = 64;

struct Matrices {
    double *a, *b, *c;
    std::size_t n;
};

// A library stays loaded: its threads may outlive a call.
class Library {
  public:
    explicit Library(const std::string& file) : handle_(dlopen(file.c_str(), RTLD_NOW)) {
        if (handle_ == nullptr) throw Failure(ENOENT, std::string("library: ") + dlerror());
    }
    template <class Function>
    Function* find(const std::string& name) const {
        return reinterpret_cast<Function*>(dlsym(handle_, name.c_str()));
    }

  private:
    void* handle_;
};

// The names under which libraries take their number of threads; OpenBLAS with 8-byte integers, or
// inside of numpy, has some of its own.
bool set_threads(const Library& library, std::size_t threads) {
    for (const char* const name : {"openblas_set_num_threads", "openblas_set_num_threads64_",
                                   "scipy_openblas_set_num_threads",
                                   "scipy_openblas_set_num_threads64_", "MKL_Set_Num_Threads"}) {
        if (auto* const set = library.find<void(int)>(name)) {
            set(static_cast<int>(threads));
            return true;
        }
    }
    if (auto* const set = library.find<void(std::int64_t)>("bli_thread_set_num_threads")) {
        set(static_cast<std::int64_t>(threads));
        return true;
    }
    return false;
}

// Fortran passes addresses, and behind them the lengths of strings.
template <class Int>
using Routine = void(const char*, const char*, const Int*, const Int*, const Int*, const double*,
                     const double*, const Int*, const double*, const Int*, const double*, double*,
                     const Int*, std::size_t, std::size_t);

template <class Int>
std::function<void()> product(const Library& library, const std::string& symbol,
                              const Matrices& all) {
    auto* const routine = library.find<Routine<Int>>(symbol);
    if (routine == nullptr) throw Failure(ENOENT, "symbol: the library has no " + symbol);
    return [routine, all, n = static_cast<Int>(all.n)] {
        const double one = 1, zero = 0;
        routine("N", "N", &n, &n, &n, &one, all.a, &n, all.b, &n, &zero, all.c, &n, 1, 1);
    };
}

double error_at(const Matrices& all, std::size_t row, std::size_t column) {
    double sum = 0, size = 0;
    for (std::size_t k = 0; k < all.n; ++k) {
        const double term = all.a[row + k * all.n] * all.b[k + column * all.n];
        sum += term;
        size += std::abs(term);
    }
    const double allowed = static_cast<double>(all.n) * 0x1p-52 * size;
    const double error = std::abs(all.c[row + column * all.n] - sum);
    if (std::isnan(error)) return std::numeric_limits<double>::infinity();
    return error <= 0 ? 0 : error / allowed;
}

}  // namespace

DgemmResult dgemm(const Memory& memory, std::size_t n, std::size_t offset_bytes,
                  std::size_t repeats, std::span<const int> cpus, const std::string& library,
                  const std::string& symbol, std::size_t integer_bytes) {
    if (n == 0 || n > most_dgemm_order) {
        throw std::invalid_argument("n: " + std::to_string(n) + "; from 1 to " +
                                    std::to_string(most_dgemm_order));
    }
    if (integer_bytes != 4 && integer_bytes != 8) {
        throw std::invalid_argument("integer_bytes: " + std::to_string(integer_bytes) + "; 4 or 8");
    }
    if (repeats == 0) throw std::invalid_argument("repeats: 0; at least 1");
    const Memory::Use use(memory);
    const std::size_t apart = n * n * sizeof(double) + offset_bytes;
    const Matrices all{use.at<double>(0, n * n, "matrix a"),
                       use.at<double>(apart, n * n, "matrix b"),
                       use.at<double>(2 * apart, n * n, "matrix c"), n};
    run_pinned(cpus, [&](const Member& member) {
        const auto [first, last] = member.part_of(n * n, 512);
        for (std::size_t i = first; i < last; ++i) {
            all.a[i] = static_cast<double>(i % 1021) / 1024 - 0.5;
            all.b[i] = static_cast<double>(i % 509) / 512 - 0.5;
            all.c[i] = std::nan("");
        }
    });

    const Confined confined(cpus);
    const Library blas(library);
    const auto multiply = integer_bytes == 4 ? product<std::int32_t>(blas, symbol, all)
                                             : product<std::int64_t>(blas, symbol, all);
    const bool threads_set = set_threads(blas, cpus.size());
    std::vector<double> seconds(repeats);
    for (double& each : seconds) {
        check_stop();
        const std::int64_t begin = now_ns();
        multiply();
        each = static_cast<double>(now_ns() - begin) * 1e-9;
    }

    Random random(0, 0, 0, Stream::sampling);
    double error = 0;
    for (std::size_t i = 0; i < looked_at; ++i) {
        const auto size = static_cast<std::uint32_t>(n);
        error = std::max(error, error_at(all, random.below(size), random.below(size)));
    }
    return {seconds, error, threads_set};
}

}  // namespace pagelens::probes
