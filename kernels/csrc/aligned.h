// A std::vector whose memory starts at a cache line.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

namespace lmc {

template <class T> struct LineAllocator {
    using value_type = T;
    static constexpr std::align_val_t LINE{64};
    LineAllocator() = default;
    template <class U> LineAllocator(const LineAllocator<U>&) {}
    T* allocate(std::size_t count) { return (T*)::operator new(count * sizeof(T), LINE); }
    void deallocate(T* p, std::size_t) { ::operator delete(p, LINE); }
    template <class U> bool operator==(const LineAllocator<U>&) const { return true; }
};

template <class T> using AlignedVector = std::vector<T, LineAllocator<T>>;

}  // namespace lmc
