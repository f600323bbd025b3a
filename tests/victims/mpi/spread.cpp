// Heat that spreads along a line of processes, in C++: a vector that grows, a deque that is packed, an object that owns the group.
// Process 0 prints one line at the end: the checksum. Usage: spread STEPS PAGES. With FIELD_TELLS it says what it does.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#define STANDFAST_MPI_IMPLEMENTATION
#include <standfast_mpi.h>

namespace {

int checked(int result, const char *what) {
    if (result < 0) throw std::runtime_error(std::string(what) + ": " + standfast_group_error());
    return result;
}

// What each process remembers of the last steps: it lies nowhere in one piece.
class History {
public:
    void add(std::uint64_t value) {
        values_.push_back(value);
        if (values_.size() > 7) values_.pop_front();
    }
    std::uint64_t sum() const {
        std::uint64_t sum = values_.size();
        for (std::uint64_t value : values_) sum = sum * 31 + value;
        return sum;
    }
    static std::size_t size(void *self) { return of(self).size() * sizeof(std::uint64_t); }
    static int pack(void *self, void *into, std::size_t bytes) {
        if (bytes != size(self)) return 1;
        unsigned char *at = static_cast<unsigned char *>(into);
        for (std::uint64_t value : of(self)) {
            std::memcpy(at, &value, sizeof value);
            at += sizeof value;
        }
        return 0;
    }
    static int unpack(void *self, const void *from, std::size_t bytes) {
        const unsigned char *at = static_cast<const unsigned char *>(from);
        of(self).clear();
        for (std::uint64_t value; bytes >= sizeof value; bytes -= sizeof value, at += sizeof value) {
            std::memcpy(&value, at, sizeof value);
            of(self).push_back(value);
        }
        return 0;
    }

private:
    static std::deque<std::uint64_t> &of(void *self) { return static_cast<History *>(self)->values_; }
    std::deque<std::uint64_t> values_;
};

class Line {
public:
    Line(int rank, int ranks, std::size_t count) : rank_(rank), ranks_(ranks), cells_(count) {
        for (std::size_t at = 0; at < count; at++) cells_[at] = double(at * 2654435761u % 1000) + rank;
        joined_ = checked(standfast_mpi_join(MPI_COMM_WORLD, nullptr, &group_), "join");
        checked(standfast_group_protect(group_, 0, &step_, 1, sizeof step_), "protect");
        if (joined_ != STANDFAST_NEW) cells_.resize(std::size_t(standfast_group_recorded(group_, 1)) / sizeof(double));
        checked(standfast_group_protect(group_, 1, cells_.data(), cells_.size(), sizeof(double)), "protect");
        checked(standfast_group_protect_packed(group_, 2, History::size, History::pack, History::unpack, &history_), "protect");
        if (joined_ != STANDFAST_NEW) checked(standfast_group_restore(group_), "restore");
    }
    Line(const Line &) = delete;
    Line &operator=(const Line &) = delete;

    void advance() {
        double left = 0, right = 0;
        int before = rank_ > 0 ? rank_ - 1 : MPI_PROC_NULL, behind = rank_ + 1 < ranks_ ? rank_ + 1 : MPI_PROC_NULL;
        MPI_Sendrecv(&cells_.back(), 1, MPI_DOUBLE, behind, 1, &left, 1, MPI_DOUBLE, before, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        MPI_Sendrecv(&cells_.front(), 1, MPI_DOUBLE, before, 2, &right, 1, MPI_DOUBLE, behind, 2, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        for (std::size_t at = 0; at < cells_.size(); at++) {
            double next = at + 1 < cells_.size() ? cells_[at + 1] : right;
            double here = cells_[at];
            cells_[at] = here + 0.25 * (left - 2 * here + next);
            left = here;
        }
        step_++;
        history_.add(std::uint64_t(cells_[step_ % cells_.size()] * 1e6) + step_);
        if (step_ % 10 == 0) {
            // It moves when it grows.
            cells_.push_back(double(step_));
            checked(standfast_group_protect(group_, 1, cells_.data(), cells_.size(), sizeof(double)), "protect");
        }
    }
    void checkpoint() { checked(standfast_group_checkpoint(group_), "checkpoint"); }
    void finish() { checked(standfast_group_finish(group_), "finish"); }

    std::uint64_t sum() const {
        std::uint64_t sum = history_.sum() + step_;
        for (double cell : cells_) {
            std::uint64_t bits;
            std::memcpy(&bits, &cell, sizeof bits);
            sum = sum * 1099511628211u + bits;
        }
        return sum;
    }
    std::uint64_t step() const { return step_; }
    int joined() const { return joined_; }

private:
    int rank_, ranks_, joined_ = STANDFAST_NEW;
    std::uint64_t step_ = 0;
    std::vector<double> cells_;
    History history_;
    standfast_group *group_ = nullptr;
};

void run(int rank, int ranks, std::uint64_t last, std::size_t count) {
    Line line(rank, ranks, count);
    bool tells = std::getenv("FIELD_TELLS") != nullptr && rank == 0;
    if (tells) std::fprintf(stderr, "rank 0 joined as %d at step %lu\n", line.joined(), (unsigned long)line.step());
    while (line.step() < last) {
        line.advance();
        double begin = MPI_Wtime();
        line.checkpoint();
        if (tells) std::fprintf(stderr, "epoch %lu in %.3f ms\n", (unsigned long)line.step(), (MPI_Wtime() - begin) * 1e3);
    }
    std::uint64_t sum = line.sum(), total = 0;
    MPI_Allreduce(&sum, &total, 1, MPI_UINT64_T, MPI_BXOR, MPI_COMM_WORLD);
    line.finish();
    if (rank == 0) std::printf("%016lx\n", (unsigned long)total);
}

}  // namespace

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    try {
        run(rank, ranks, argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100,
            (argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 16) * 512);
    } catch (const std::exception &problem) {
        std::fprintf(stderr, "%s\n", problem.what());
        MPI_Abort(MPI_COMM_WORLD, 3);
    }
    MPI_Finalize();
    return 0;
}
