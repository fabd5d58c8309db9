// A pool of helper threads that take pieces of a job from one counter.
//
// The caller works too and waits only for pieces that a helper has begun, never for a helper
// to show up: a helper that the system has put aside delays nothing. (OpenMP's barriers wait
// for every thread of the team, a few hundred times per token; beside any other busy process
// that halved the speed.) Helpers spin for a while between jobs, as a decode step is hundreds
// of jobs a few microseconds apart, and then sleep.
#include "parallel.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>

namespace lmc {

namespace {

constexpr int MOST_THREADS = 256;
constexpr auto SPIN_TIME = std::chrono::microseconds(200);
constexpr int SPINS_PER_YIELD = 4000;

inline void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// The ticket holds the number of the job (upper half) and its next piece (lower half).
// CLOSED in place of a piece means that the job's fields are not to be read.
constexpr uint64_t CLOSED = 0xffffffffu;
constexpr uint64_t job_of(uint64_t ticket) { return ticket >> 32; }
constexpr uint64_t piece_of(uint64_t ticket) { return ticket & 0xffffffffu; }

class Pool {
  public:
    void run(int64_t count, Piece piece, const void* body, int threads) {
        grow(threads - 1);
        const uint64_t job = job_of(ticket_.load(std::memory_order_relaxed)) + 1;
        // Close first: a late helper still holding the old ticket cannot take a new piece.
        ticket_.store(job << 32 | CLOSED);
        piece_.store(piece);
        body_.store(body);
        count_.store((uint64_t)count);
        helpers_.store(threads - 1);
        done_.store(0);
        ticket_.store(job << 32);
        if (sleepers_.load() > 0) {
            std::lock_guard lock(mutex_);
            wake_.notify_all();
        }
        take_pieces();
        for (int spins = 0; done_.load(std::memory_order_acquire) != (uint64_t)count;)
            if (++spins < SPINS_PER_YIELD)
                pause();
            else
                sched_yield();  // a helper holds a piece and may need this processor
        ticket_.store(job << 32 | CLOSED);
    }

    std::mutex busy;  // held by the caller whose job runs

  private:
    // Takes and runs pieces of the current job until none is left.
    void take_pieces() {
        uint64_t ticket = ticket_.load();
        for (;;) {
            if (piece_of(ticket) == CLOSED) return;
            const Piece piece = piece_.load();
            const void* body = body_.load();
            if (piece_of(ticket) >= count_.load()) return;
            // Success proves that the job is still open, so the fields read above are its own.
            if (!ticket_.compare_exchange_weak(ticket, ticket + 1)) continue;
            piece(body, (int64_t)piece_of(ticket));
            done_.fetch_add(1, std::memory_order_release);
            ticket = ticket_.load();
        }
    }

    void grow(int helpers) {
        try {
            for (; started_ < helpers; started_++)
                std::thread([this, number = started_] { help(number); }).detach();
        } catch (const std::system_error&) {
            // The system grants no more threads: those that there are do the work.
        }
    }

    [[noreturn]] void help(int number) {
        uint64_t seen = 0;
        for (;;) {
            const uint64_t ticket = wait_for_job(seen);
            seen = job_of(ticket);
            if (number < helpers_.load()) take_pieces();
        }
    }

    // Returns the ticket of a job after `seen`.
    uint64_t wait_for_job(uint64_t seen) {
        const auto until = std::chrono::steady_clock::now() + SPIN_TIME;
        for (int spins = 0;; spins++) {
            const uint64_t ticket = ticket_.load(std::memory_order_acquire);
            if (job_of(ticket) != seen && piece_of(ticket) != CLOSED) return ticket;
            pause();
            if (spins % 64 == 63 && std::chrono::steady_clock::now() > until) break;
        }
        std::unique_lock lock(mutex_);
        sleepers_++;
        uint64_t ticket = 0;
        wake_.wait(lock, [&] {
            ticket = ticket_.load();
            return job_of(ticket) != seen && piece_of(ticket) != CLOSED;
        });
        sleepers_--;
        return ticket;
    }

    alignas(64) std::atomic<uint64_t> ticket_{CLOSED};
    alignas(64) std::atomic<uint64_t> done_{0};
    alignas(64) std::atomic<Piece> piece_{nullptr};
    std::atomic<const void*> body_{nullptr};
    std::atomic<uint64_t> count_{0};
    std::atomic<int> helpers_{0};
    std::atomic<int> sleepers_{0};
    std::mutex mutex_;
    std::condition_variable wake_;
    int started_ = 0;
};

std::atomic<int> g_num_threads{1};

// Never destroyed: helpers may still look at it while the process ends.
std::atomic<Pool*> g_pool{nullptr};

Pool& pool() {
    static std::once_flag once;
    std::call_once(once, [] {
        g_pool = new Pool;
        // The child of a fork has no helpers: it starts with a pool of its own.
        pthread_atfork(nullptr, nullptr, [] { g_pool = new Pool; });
    });
    return *g_pool;
}

}  // namespace

int num_threads() { return g_num_threads.load(std::memory_order_relaxed); }

void run_pieces(int64_t count, Piece piece, const void* body) {
    const int threads = (int)(num_threads() < count ? num_threads() : count);
    if (threads > 1) {
        Pool& helpers = pool();
        std::unique_lock lock(helpers.busy, std::try_to_lock);
        if (lock.owns_lock()) return helpers.run(count, piece, body, threads);
    }
    // One thread, or another caller has the pool.
    for (int64_t i = 0; i < count; i++) piece(body, i);
}

}  // namespace lmc

LMC_EXPORT void lmc_set_num_threads(int count) {
    lmc::g_num_threads = count < 1 ? 1 : count > lmc::MOST_THREADS ? lmc::MOST_THREADS : count;
}
