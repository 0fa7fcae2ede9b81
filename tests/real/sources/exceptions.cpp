// Exceptions that a library throws through frames of the program, in four threads.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

int thrown(int value);
#ifdef LIBRARY
int thrown(int value) {
    const std::string text(static_cast<std::size_t>(value % 50), 'x');
    if (value % 3 == 0) throw std::runtime_error(text);
    if (value % 3 == 1) throw value;
    return value;
}
#else
static int through(int depth, int value) {
    const std::string held(40, 'y');  // its destructor runs while the stack is unwound
    return (depth == 0 ? thrown(value) : through(depth - 1, value)) + (held.size() == 40 ? 1 : 0);
}
static long work(int first) {
    long sum = 0;
    for (int i = first; i < first + 500; ++i) {
        try {
            sum += through(i % 20, i);
        } catch (const std::exception& error) {
            sum += static_cast<long>(std::string(error.what()).size());
        } catch (int value) {
            sum += value;
        }
    }
    return sum;
}
int main() {
    std::vector<long> sums(4);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&sums, t] { sums[static_cast<std::size_t>(t)] = work(500 * t); });
    for (auto& thread : threads) thread.join();
    std::printf("%ld %ld %ld %ld\n", sums[0], sums[1], sums[2], sums[3]);
    throw std::logic_error("nobody catches this");
}
#endif
