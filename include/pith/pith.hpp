// pith.hpp - pith.h for C++17: handles that own their memory, views of containers, exceptions.
// SPDX-License-Identifier: Apache-2.0
//
// Header only: it needs pith.h, the library behind it, and the standard library. pith.h says what
// calls do; here stands what C++ adds. What has no C++ form (pages of kv.h, tables of codecs, row
// statistics, the planning of sparse.h) is called in C with the get() of a handle, and Work::check
// makes an exception of its status.
//
// Handles. Plan, Work, Stream and Cache own the memory that pith.h asks the caller for. They can be
// moved, not copied. Moving one moves no memory, so that what points to it stays good. A handle
// that was made without arguments, or moved from, is empty (false as a condition): it may be
// assigned to and destroyed; calls that return a status answer PITH_ERR_ARG for it, and the others
// must not be made. A plan outlives the streams and caches that were made for it.
//
// Errors. A call that can fail has two forms. `name` throws pith::Error, or std::bad_alloc where it
// makes a vector. `try_name` is noexcept, returns the pith_status and puts results in arguments,
// which keep what they were on failure unless pith.h says otherwise. Calls with a work leave the
// text in work.error(); the others take a pith_error, which may be NULL: sized<pith_error>().
// Compiled with -fno-exceptions, `name` ends the program (std::terminate) where it would throw.
// "Errors" under a call names those that good code meets; PITH_ERR_ARG and _BUSY any call answers.
//
// Threads. "Threads: work, stream" under a call means that these are in one call at a time (a
// second one answers PITH_ERR_BUSY) and that everything else may be shared. "Threads: any" means
// that nothing in the call is in the way of others. A handle is made, moved and destroyed while no
// other thread uses it.
//
// Memory. Works and streams allocate when they are made, never when they encode or decode; the
// forms that return a vector allocate it.
#ifndef PITH_PITH_HPP
#define PITH_PITH_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "pith/pith.h"

namespace pith {

// ---- Structs of pith.h ------------------------------------------------------------------------

// A struct of pith.h with every field 0 and its size set: `auto env = pith::sized<pith_env>();`.
template <class T>
T sized() noexcept {
    T t{};
    t.size = sizeof(T);
    return t;
}

// ---- Errors -----------------------------------------------------------------------------------

// Why a call failed. Copies without allocating.
class Error : public std::exception {
public:
    explicit Error(pith_status status, const pith_error *error = nullptr) noexcept
        : status_(status), error_(sized<pith_error>()) {
        if (error && error->size) {
            const std::size_t known = error->size < sizeof error_ ? error->size : sizeof error_;
            std::memcpy(static_cast<void *>(&error_), error, known);
            error_.size = sizeof error_;
            error_.text[PITH_ERROR_TEXT - 1] = 0;
        }
        if (!error_.text[0]) append(error_.text, sizeof error_.text, pith_status_text(status));
        append(what_.data(), what_.size(), pith_status_name(status));
        append(what_.data(), what_.size(), ": ");
        append(what_.data(), what_.size(), error_.text);
    }

    pith_status status() const noexcept { return status_; }
    // A byte of the frame or of the spec, a block, or what the call's text says; else 0.
    std::uint64_t offset() const noexcept { return error_.offset; }
    // The number, in the list, of the item that failed; else 0.
    std::uint64_t item() const noexcept { return error_.item; }
    // A sentence with the numbers and names that it speaks of, never empty.
    const char *text() const noexcept { return error_.text; }
    // The status's name and the text.
    const char *what() const noexcept override { return what_.data(); }

private:
    static void append(char *to, std::size_t capacity, const char *text) noexcept {
        const std::size_t used = std::strlen(to), more = std::strlen(text);
        const std::size_t fits = more < capacity - used - 1 ? more : capacity - used - 1;
        std::memcpy(to + used, text, fits);
        to[used + fits] = 0;
    }

    pith_status status_;
    pith_error error_;
    std::array<char, PITH_ERROR_TEXT + 40> what_{};
};

// Throw an Error unless the status is PITH_OK: for calls of pith.h that take no work.
//   error  what the call left; may be NULL
// Errors: the status. Threads: any.
inline void check(pith_status status, const pith_error *error = nullptr) {
    if (status == PITH_OK) return;
#ifdef __cpp_exceptions
    throw Error(status, error);
#else
    (void)error;
    std::terminate();
#endif
}

// ---- Spans ------------------------------------------------------------------------------------

namespace detail {

// The type of a contiguous container's elements, const where they cannot be written through it.
template <class C>
using element_t = std::remove_pointer_t<decltype(std::data(std::declval<C &>()))>;

// What a C && refers to stays when C itself is gone: it has a name, or is a span or view, whose
// elements are no more const where it is. To be used behind an element_t<C>, which rules out what
// is no container.
template <class C>
inline constexpr bool lasts =
    std::is_lvalue_reference_v<C> ||
    std::is_same_v<element_t<C>, element_t<const std::remove_reference_t<C>>>;

template <class T, class = void>
struct IsByte : std::false_type {};
template <class T>
struct IsByte<T, std::enable_if_t<!std::is_void_v<T>>>
    : std::bool_constant<sizeof(T) == 1 && std::is_trivially_copyable_v<T>> {};

} // namespace detail

// Elements that follow each other in memory of the caller's. Made without a word from std::vector,
// std::array, an array, or whatever has data() and size(); std::span of C++20 is one of these.
template <class T>
class Span {
public:
    constexpr Span() noexcept = default;
    constexpr Span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <class C, class E = detail::element_t<C>,
              class = std::enable_if_t<std::is_convertible_v<E (*)[], T (*)[]> &&
                                       (std::is_const_v<T> || detail::lasts<C>)>>
    constexpr Span(C &&container) noexcept
        : data_(std::data(container)), size_(std::size(container)) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t i) const noexcept { return data_[i]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

// Bytes that a call writes: made without a word from containers whose elements have one byte
// (std::byte, unsigned char, char), or of a pointer and a number of bytes.
class Bytes {
public:
    constexpr Bytes() noexcept = default;
    constexpr Bytes(void *data, std::size_t size) noexcept : data_(data), size_(size) {}
    template <class C, class E = detail::element_t<C>,
              class = std::enable_if_t<detail::IsByte<E>::value && !std::is_const_v<E> &&
                                       detail::lasts<C>>>
    constexpr Bytes(C &&container) noexcept
        : data_(std::data(container)), size_(std::size(container)) {}

    constexpr void *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }

private:
    void *data_ = nullptr;
    std::size_t size_ = 0;
};

// Bytes that a call reads.
class ConstBytes {
public:
    constexpr ConstBytes() noexcept = default;
    constexpr ConstBytes(const void *data, std::size_t size) noexcept : data_(data), size_(size) {}
    constexpr ConstBytes(Bytes bytes) noexcept : data_(bytes.data()), size_(bytes.size()) {}
    template <class C, class E = detail::element_t<const C>,
              class = std::enable_if_t<detail::IsByte<std::remove_cv_t<E>>::value>>
    constexpr ConstBytes(const C &container) noexcept
        : data_(std::data(container)), size_(std::size(container)) {}

    constexpr const void *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }

private:
    const void *data_ = nullptr;
    std::size_t size_ = 0;
};

// ---- Views ------------------------------------------------------------------------------------

// The dtype of a C++ type. For types of 16 bits of your own:
//     template <> struct pith::Dtype<my::bfloat16> : pith::DtypeIs<PITH_BF16> {};
// char has none, since its sign is the platform's; uint16_t is PITH_U16 unless a view says else.
template <pith_dtype D>
struct DtypeIs {
    static constexpr pith_dtype value = D;
};
template <class T, class = void>
struct Dtype {};
template <>
struct Dtype<float> : DtypeIs<PITH_F32> {};
template <>
struct Dtype<double> : DtypeIs<PITH_F64> {};
template <>
struct Dtype<bool> : DtypeIs<PITH_BOOL> {};
template <>
struct Dtype<std::byte> : DtypeIs<PITH_U8> {};
template <>
struct Dtype<signed char> : DtypeIs<PITH_I8> {};
template <>
struct Dtype<unsigned char> : DtypeIs<PITH_U8> {};
// Whole numbers of 2, 4 and 8 bytes, whichever of short, int, long and long long they are.
template <class T>
struct Dtype<
    T, std::enable_if_t<std::is_integral_v<T> && (sizeof(T) > 1) && !std::is_same_v<T, wchar_t> &&
                        !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>>>
    : DtypeIs<sizeof(T) == 2   ? (std::is_signed_v<T> ? PITH_I16 : PITH_U16)
              : sizeof(T) == 4 ? (std::is_signed_v<T> ? PITH_I32 : PITH_U32)
                               : (std::is_signed_v<T> ? PITH_I64 : PITH_U64)> {};

// One number for each of up to PITH_MAX_NDIM dimensions: {2, 3}, 6, or a container of numbers.
template <class N>
class Dims {
public:
    template <class... I, class = std::enable_if_t<(std::is_integral_v<I> && ...)>>
    constexpr Dims(I... n) noexcept
        : ndim_(static_cast<std::uint32_t>(sizeof...(I))), n_{static_cast<N>(n)...} {
        static_assert(sizeof...(I) <= PITH_MAX_NDIM, "a tensor has at most 8 dimensions");
    }
    // Throws PITH_ERR_SHAPE when the container has more than PITH_MAX_NDIM numbers.
    template <class C,
              class = std::enable_if_t<std::is_integral_v<std::remove_cv_t<detail::element_t<C>>>>>
    Dims(const C &container) : ndim_(0), n_{} {
        if (std::size(container) > PITH_MAX_NDIM) check(PITH_ERR_SHAPE);
        for (const auto &n : container) n_[ndim_++] = static_cast<N>(n);
    }

    constexpr std::uint32_t ndim() const noexcept { return ndim_; }
    constexpr const N *data() const noexcept { return n_.data(); }
    constexpr std::size_t size() const noexcept { return ndim_; }
    constexpr N operator[](std::size_t i) const noexcept { return n_[i]; }

private:
    std::uint32_t ndim_;
    std::array<N, PITH_MAX_NDIM> n_;
};
// Elements along each dimension, and elements from one to the next along each.
class Shape : public Dims<std::uint64_t> {
public:
    using Dims::Dims;
};
class Strides : public Dims<std::int64_t> {
public:
    using Dims::Dims;
};

// A layout without slots, source or exempt ranges; set further fields in what it returns.
//   dtype       of the values
//   shape       up to PITH_MAX_NDIM dimensions, in elements
//   base_dtype  PITH_NONE: no base
// Errors: none; a wrong layout is refused by the plan. Threads: any.
inline pith_layout layout(pith_dtype dtype, const Shape &shape,
                          pith_dtype base_dtype = PITH_NONE) noexcept {
    pith_layout l = sized<pith_layout>();
    l.dtype = dtype;
    l.base_dtype = base_dtype;
    l.ndim = shape.ndim();
    for (std::uint32_t i = 0; i < l.ndim; i++) l.shape[i] = shape[i];
    return l;
}

// A pith_view that calls read. Without arguments: dtype PITH_NONE, no view.
struct ConstView : pith_view {
    ConstView() noexcept : pith_view{} {}
    explicit ConstView(const pith_view &v) noexcept : pith_view(v) {}
    std::uint64_t count() const noexcept { return pith_view_count(this); }
};
// A pith_view that calls may write. Where values are read it stands for a ConstView.
struct View : ConstView {
    View() noexcept = default;
    explicit View(const pith_view &v) noexcept : ConstView(v) {}
};

namespace detail {

template <class T>
using view_t = std::conditional_t<std::is_const_v<T>, ConstView, View>;

template <class T>
view_t<T> view_of(T *data, pith_dtype dtype, const Shape &shape) noexcept {
    return view_t<T>(pith_view_dense(data, dtype, shape.ndim(), shape.data()));
}

inline void set_strides(pith_view &v, const Strides &strides) {
    if (strides.ndim() != v.ndim) check(PITH_ERR_SHAPE);
    for (std::uint32_t i = 0; i < v.ndim; i++) v.stride[i] = strides[i];
}

} // namespace detail

// A dense view of memory at a pointer, a View unless the pointer is to const.
//   data     the first element; any alignment
//   dtype    of what lies there; without it, that of the pointer's type
//   shape    elements along each dimension: {2, 3}, or one number
//   strides  elements from one to the next along each dimension, where it is not dense
// Errors: PITH_ERR_SHAPE when strides and shape differ in number. Threads: any.
template <class P, std::enable_if_t<std::is_pointer_v<P>, int> = 0>
auto view(const P &data, pith_dtype dtype, const Shape &shape) noexcept {
    return detail::view_of(data, dtype, shape);
}
template <class P, std::enable_if_t<std::is_pointer_v<P>, int> = 0>
auto view(const P &data, const Shape &shape) noexcept {
    return detail::view_of(data, Dtype<std::remove_cv_t<std::remove_pointer_t<P>>>::value, shape);
}
template <class P, std::enable_if_t<std::is_pointer_v<P>, int> = 0>
auto view(const P &data, pith_dtype dtype, const Shape &shape, const Strides &strides) {
    auto v = detail::view_of(data, dtype, shape);
    detail::set_strides(v, strides);
    return v;
}
template <class P, std::enable_if_t<std::is_pointer_v<P>, int> = 0>
auto view(const P &data, const Shape &shape, const Strides &strides) {
    auto v = view(data, shape);
    detail::set_strides(v, strides);
    return v;
}

// A dense view of the whole of a contiguous container, a View unless its elements are const.
//   container  std::vector, std::array, an array, a Span, ...; must outlive the view
//   dtype      of what lies there (bf16 in uint16_t, anything in bytes); without it, that of the
//              element type
//   shape      without it, one dimension
// Errors: PITH_ERR_SHAPE unless dtype and shape take just the container's bytes. Threads: any.
template <class C, class T = detail::element_t<C>, class = std::enable_if_t<detail::lasts<C>>>
auto view(C &&container, pith_dtype dtype, const Shape &shape) {
    auto v = detail::view_of(std::data(container), dtype, shape);
    const std::uint64_t bytes = std::uint64_t{std::size(container)} * sizeof(T);
    const std::uint64_t width = pith_dtype_bytes(dtype);
    if (!width || bytes % width || v.count() != bytes / width) check(PITH_ERR_SHAPE);
    return v;
}
template <class C, class T = detail::element_t<C>, class = std::enable_if_t<detail::lasts<C>>>
auto view(C &&container, const Shape &shape) {
    return view(container, Dtype<std::remove_cv_t<T>>::value, shape);
}
template <class C, class T = detail::element_t<C>, class = std::enable_if_t<detail::lasts<C>>>
auto view(C &&container, pith_dtype dtype) {
    const std::size_t width = pith_dtype_bytes(dtype);
    return view(container, dtype, std::size(container) * sizeof(T) / (width ? width : 1));
}
template <class C, class T = detail::element_t<C>, class = std::enable_if_t<detail::lasts<C>>>
auto view(C &&container) {
    return view(container, std::size(container));
}

// ---- Memory of handles ------------------------------------------------------------------------

namespace detail {

// An object of the library and the memory that it lies in. Moving it leaves both where they are.
template <class T>
class Placed {
public:
    Placed() noexcept = default;
    Placed(Placed &&other) noexcept
        : memory_(std::move(other.memory_)), object_(std::exchange(other.object_, nullptr)) {}
    Placed &operator=(Placed &&other) noexcept {
        Placed taken(std::move(other));
        std::swap(memory_, taken.memory_);
        std::swap(object_, taken.object_);
        return *this;
    }

    T *get() const noexcept { return object_; }

    // Give `bytes` of fresh memory to init(memory, bytes, &object), and keep both when it succeeds.
    template <class Init>
    pith_status place(std::uint64_t bytes, const Init &init) noexcept {
        if (bytes > PTRDIFF_MAX) return PITH_ERR_MEMORY;
        const std::size_t size = static_cast<std::size_t>(bytes);
        std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[size ? size : 1]);
        if (!memory) return PITH_ERR_MEMORY;
        T *object = nullptr;
        const pith_status status = init(memory.get(), size, &object);
        if (status != PITH_OK) return status;
        memory_ = std::move(memory);
        object_ = object;
        return PITH_OK;
    }

private:
    std::unique_ptr<std::byte[]> memory_;
    T *object_ = nullptr;
};

struct PlanDestroy {
    void operator()(const pith_plan *plan) const noexcept { pith_plan_destroy(plan); }
};

// Why a call with this status failed. A work that is busy is another thread's, text included.
inline void check_work(pith_status status, const pith_work *work) {
    if (status == PITH_OK) return;
    check(status, work && status != PITH_ERR_BUSY ? pith_work_error(work) : nullptr);
}

} // namespace detail

// ---- Plans ------------------------------------------------------------------------------------

// A spec and a layout, checked, with every size. Immutable: any number of threads, works, streams
// and caches use it at once.
class Plan {
public:
    Plan() noexcept = default;
    // Make a plan.
    //   spec    "name:key=value,..."
    //   layout  what is encoded
    //   env     allocator and CPU mask; NULL: defaults. Its allocator must outlive the plan
    // Errors: PITH_ERR_SPEC (offset: a position in spec), _ARG, _DTYPE, _UNSUPPORTED, _MEMORY.
    // Threads: any.
    Plan(const char *spec, const pith_layout &layout, const pith_env *env = nullptr) {
        pith_error error = sized<pith_error>();
        check(try_create(*this, spec, layout, env, &error), &error);
    }
    [[nodiscard]] static pith_status try_create(Plan &plan, const char *spec,
                                                const pith_layout &layout,
                                                const pith_env *env = nullptr,
                                                pith_error *error = nullptr) noexcept {
        const pith_plan *made = nullptr;
        const pith_status status = pith_plan_create(&made, spec, &layout, env, error);
        if (status == PITH_OK) plan.plan_.reset(made);
        return status;
    }

    const pith_plan *get() const noexcept { return plan_.get(); }
    explicit operator bool() const noexcept { return plan_ != nullptr; }

    // Every size in bytes, known before there is data.
    // Errors: none. Threads: any.
    pith_sizes sizes() const noexcept {
        pith_sizes s = sized<pith_sizes>();
        (void)pith_plan_sizes(get(), &s);
        return s;
    }
    struct Slot {
        std::uint64_t first, count;
    };
    // First element and element count of a slot in the tensor taken flat.
    //   slot  0 to sizes().slots - 1
    // Errors: PITH_ERR_ARG past the last. Threads: any.
    Slot slot(std::uint64_t slot) const {
        Slot s{};
        check(try_slot(slot, s));
        return s;
    }
    [[nodiscard]] pith_status try_slot(std::uint64_t slot, Slot &out) const noexcept {
        return pith_plan_slot(get(), slot, &out.first, &out.count);
    }
    // Bytes that suffice for a frame of the slot, or for a key frame; exact when sizes().fixed.
    // Errors: none. Threads: any.
    std::uint64_t frame_bytes(std::uint64_t slot, bool key = false) const noexcept {
        return pith_plan_frame_bytes(get(), slot, key ? 1 : 0);
    }
    // Whether the spec's own rule (key_every=N) makes step `step` a key frame.
    // Errors: none. Threads: any.
    bool is_key(std::uint64_t step) const noexcept { return pith_plan_is_key(get(), step) != 0; }
    // The canonical spec.
    // Errors: none. Threads: any.
    std::string spec() const {
        char text[PITH_SPEC_MAX];
        check(pith_plan_spec(get(), text, sizeof text));
        return text;
    }
    // The layout, without slot_counts (slot tells them) and exempt ranges.
    // Errors: none. Threads: any.
    pith_layout layout() const noexcept {
        pith_layout l = sized<pith_layout>();
        if (pith_plan_layout(get(), &l) != PITH_OK) l = sized<pith_layout>();
        return l;
    }
    // The exempt ranges of the layout.
    // Errors: std::bad_alloc. Threads: any.
    std::vector<pith_exempt> exempt() const {
        std::vector<pith_exempt> ranges(get() ? pith_plan_exempt(get(), nullptr, 0) : 0);
        if (!ranges.empty()) (void)pith_plan_exempt(get(), ranges.data(), ranges.size());
        return ranges;
    }
    // Equal for two plans where each takes the other's frames.
    // Errors: none. Threads: any.
    std::uint64_t fingerprint() const noexcept { return pith_plan_fingerprint(get()); }

private:
    std::unique_ptr<const pith_plan, detail::PlanDestroy> plan_;
};

// ---- Works ------------------------------------------------------------------------------------

// Scratch memory, threads, and why the last call failed: one for each thread that calls.
class Work {
public:
    Work() noexcept = default;
    // Make a work that calls of this plan, or of any of these, can use.
    //   plan, plans  the get() of each: Work({a.get(), b.get()}, &env)
    //   env          runner, threads and output limit, copied; NULL: defaults, the calling thread
    // Errors: PITH_ERR_ARG, _UNSUPPORTED (threads without OpenMP), _MEMORY. Threads: any.
    explicit Work(const Plan &plan, const pith_env *env = nullptr) {
        const pith_plan *const one = plan.get();
        create(Span<const pith_plan *const>(&one, 1), env);
    }
    explicit Work(std::initializer_list<const pith_plan *> plans, const pith_env *env = nullptr) {
        create(Span<const pith_plan *const>(plans.begin(), plans.size()), env);
    }
    explicit Work(Span<const pith_plan *const> plans, const pith_env *env = nullptr) {
        create(plans, env);
    }
    [[nodiscard]] static pith_status try_create(Work &work, Span<const pith_plan *const> plans,
                                                const pith_env *env = nullptr,
                                                pith_error *error = nullptr) noexcept {
        for (const pith_plan *plan : plans)
            if (!plan) return PITH_ERR_ARG;
        const std::uint64_t bytes = pith_work_bytes(plans.data(), plans.size(), threads_of(env));
        return work.work_.place(bytes, [&](void *memory, std::size_t size, pith_work **made) {
            return pith_work_init(memory, size, env, made, error);
        });
    }
    [[nodiscard]] static pith_status try_create(Work &work, const Plan &plan,
                                                const pith_env *env = nullptr,
                                                pith_error *error = nullptr) noexcept {
        const pith_plan *const one = plan.get();
        return try_create(work, Span<const pith_plan *const>(&one, 1), env, error);
    }

    pith_work *get() const noexcept { return work_.get(); }
    explicit operator bool() const noexcept { return get() != nullptr; }
    // Why the last call with this work failed, until its next call.
    // Errors: none. Threads: work.
    const pith_error &error() const noexcept { return *pith_work_error(get()); }
    // Throw an Error with the work's text unless the status is PITH_OK: for calls of pith.h.
    //   status  of a call that was made with this work and was its last
    // Errors: the status. Threads: work.
    void check(pith_status status) const { detail::check_work(status, get()); }

private:
    void create(Span<const pith_plan *const> plans, const pith_env *env) {
        pith_error error = sized<pith_error>();
        pith::check(try_create(*this, plans, env, &error), &error);
    }
    static std::uint32_t threads_of(const pith_env *env) noexcept {
        const std::size_t end = offsetof(pith_env, threads) + sizeof(std::uint32_t);
        return env && env->size >= end ? env->threads : 0;
    }

    detail::Placed<pith_work> work_;
};

// Where several frames lie, of a sum for instance: made once, used every step without allocating.
// The frames themselves are the caller's.
class Frames {
public:
    Frames() = default;
    // Made from a list, or from any range, of what ConstBytes are made of.
    Frames(std::initializer_list<ConstBytes> frames) {
        for (const ConstBytes &frame : frames) push_back(frame);
    }
    template <class Range, class = std::enable_if_t<std::is_convertible_v<
                               decltype(*std::begin(std::declval<const Range &>())), ConstBytes>>>
    explicit Frames(const Range &range) {
        for (const auto &frame : range) push_back(frame);
    }
    void push_back(ConstBytes frame) {
        data_.reserve(data_.size() + 1);
        lengths_.push_back(frame.size());
        data_.push_back(frame.data());
    }
    void clear() noexcept {
        data_.clear();
        lengths_.clear();
    }
    std::size_t size() const noexcept { return data_.size(); }
    const void *const *data() const noexcept { return data_.data(); }
    const std::size_t *lengths() const noexcept { return lengths_.data(); }

private:
    std::vector<const void *> data_;
    std::vector<std::size_t> lengths_;
};

// ---- Streams ----------------------------------------------------------------------------------

// What one end of a sequence of frames remembers, slot by slot.
class Stream {
public:
    Stream() noexcept = default;
    // Make a stream: base or residual all +0.
    //   plan     must outlive the stream
    //   options  seed, rng_stream, rank of ranks, step of every slot's first frame; NULL: all 0
    // Errors: PITH_ERR_ARG (rank not below ranks), _MEMORY. Threads: any.
    explicit Stream(const Plan &plan, const pith_stream_options *options = nullptr) {
        pith_error error = sized<pith_error>();
        check(try_create(*this, plan, options, &error), &error);
    }
    [[nodiscard]] static pith_status try_create(Stream &stream, const Plan &plan,
                                                const pith_stream_options *options = nullptr,
                                                pith_error *error = nullptr) noexcept {
        if (!plan) return PITH_ERR_ARG;
        return stream.stream_.place(
            plan.sizes().stream_bytes, [&](void *memory, std::size_t size, pith_stream **made) {
                return pith_stream_init(plan.get(), memory, size, options, made, error);
            });
    }

    pith_stream *get() const noexcept { return stream_.get(); }
    explicit operator bool() const noexcept { return get() != nullptr; }
    // The plan it was made for.
    // Errors: none. Threads: any.
    const pith_plan *plan() const noexcept { return pith_stream_plan(get()); }
    // Take away the mark of a call that never returned, since its thread was killed.
    // Errors: none. Threads: stream, which no call may be using any more.
    void unlock() noexcept { pith_stream_unlock(get()); }

    // As it was when it was made; an external base becomes +0.
    // Errors: none of its own. Threads: work, stream.
    void reset(Work &work) { work.check(try_reset(work)); }
    [[nodiscard]] pith_status try_reset(Work &work) noexcept {
        return pith_stream_reset(work.get(), get());
    }
    // Take back what encoding a step did, in every slot whose last encode was of that step.
    //   step  that is thrown away
    // Errors: PITH_ERR_STATE for a stream with a base. Threads: work, stream.
    void rollback(Work &work, std::uint64_t step) { work.check(try_rollback(work, step)); }
    [[nodiscard]] pith_status try_rollback(Work &work, std::uint64_t step) noexcept {
        return pith_stream_rollback(work.get(), get(), step);
    }
    // The step of a slot's next frame.
    // Errors: none. Threads: stream.
    std::uint64_t step(std::uint64_t slot) const noexcept { return pith_stream_step(get(), slot); }
    // Set the step of a slot's next frame.
    //   slot  0 to slots - 1
    //   step  from now on; it grows by one with every encode and, with a base, every decode
    // Errors: PITH_ERR_ARG past the last slot. Threads: work, stream.
    void set_step(Work &work, std::uint64_t slot, std::uint64_t step) {
        work.check(try_set_step(work, slot, step));
    }
    [[nodiscard]] pith_status try_set_step(Work &work, std::uint64_t slot,
                                           std::uint64_t step) noexcept {
        return pith_stream_set_step(work.get(), get(), slot, step);
    }
    // Draw other random bits from now on.
    //   options  seed, rng_stream, rank and ranks; its step is not used
    // Errors: PITH_ERR_ARG (rank not below ranks). Threads: work, stream.
    void set_random(Work &work, const pith_stream_options &options) {
        work.check(try_set_random(work, options));
    }
    [[nodiscard]] pith_status try_set_random(Work &work,
                                             const pith_stream_options &options) noexcept {
        return pith_stream_set_random(work.get(), get(), &options);
    }

    // Use the caller's memory as the base: it is read now, and written by encode and decode.
    //   base  dense, of the layout's element count in the base dtype; must outlive the stream and
    //         be changed by nobody else
    //   step  of every slot's next frame
    // Errors: PITH_ERR_DTYPE, _SHAPE (count, strides), _STATE (a plan without external base).
    // Threads: work, stream.
    void bind_base(Work &work, const View &base, std::uint64_t step) {
        pith::check(base_fits(base));
        work.check(try_bind_base(work, base, step));
    }
    [[nodiscard]] pith_status try_bind_base(Work &work, const View &base,
                                            std::uint64_t step) noexcept {
        const pith_status status = base_fits(base);
        if (status != PITH_OK) return status;
        return pith_stream_bind_base(work.get(), get(), base.data, step);
    }
    // Set the base of all slots.
    //   values  the whole tensor, rounded to the base dtype
    //   step    of every slot's next frame
    // Errors: PITH_ERR_SHAPE, _DTYPE, _STATE. Threads: work, stream.
    void set_base(Work &work, const ConstView &values, std::uint64_t step) {
        work.check(try_set_base(work, values, step));
    }
    [[nodiscard]] pith_status try_set_base(Work &work, const ConstView &values,
                                           std::uint64_t step) noexcept {
        return pith_stream_set_base(work.get(), get(), &values, step);
    }
    // Copy the base of a slot, or of all, out.
    //   slot    whose base it is
    //   values  of the slot's element count, or of the layout's for all; rounded to its dtype
    // Errors: PITH_ERR_SHAPE, _DTYPE, _STATE. Threads: work, stream.
    void get_base(Work &work, std::uint64_t slot, const View &values) const {
        work.check(try_get_base(work, slot, values));
    }
    [[nodiscard]] pith_status try_get_base(Work &work, std::uint64_t slot,
                                           const View &values) const noexcept {
        return pith_stream_get_base(work.get(), get(), slot, &values);
    }
    // Hash of a slot's base: equal on every replica.
    // Errors: none. Threads: stream.
    std::uint64_t base_hash(std::uint64_t slot) const noexcept {
        return pith_stream_base_hash(get(), slot);
    }
    // Read the base again and compare hashes.
    // Errors: PITH_ERR_BASE when memory changed, _UNSUPPORTED (base_hash=off), _STATE (no base).
    // Threads: work, stream.
    void verify(Work &work) const { work.check(try_verify(work)); }
    [[nodiscard]] pith_status try_verify(Work &work) const noexcept {
        return pith_stream_verify(work.get(), get());
    }

    // Read, or replace, part of the residual of error feedback.
    //   first   element of the tensor taken flat, at which the view begins
    //   values  f32, bf16 or f16
    // Errors: PITH_ERR_STATE without error feedback, _SHAPE (a range beyond the tensor), _DTYPE,
    // _ARG (set: a value that is not finite). Threads: work, stream.
    void get_residual(Work &work, std::uint64_t first, const View &values) const {
        work.check(try_get_residual(work, first, values));
    }
    [[nodiscard]] pith_status try_get_residual(Work &work, std::uint64_t first,
                                               const View &values) const noexcept {
        return pith_stream_get_residual(work.get(), get(), first, &values);
    }
    void set_residual(Work &work, std::uint64_t first, const ConstView &values) {
        work.check(try_set_residual(work, first, values));
    }
    [[nodiscard]] pith_status try_set_residual(Work &work, std::uint64_t first,
                                               const ConstView &values) noexcept {
        return pith_stream_set_residual(work.get(), get(), first, &values);
    }

    // Serialise everything, base included: sizes().save_bytes, the same on every machine.
    //   to       memory of at least that many bytes
    //   written  bytes that it took
    // Errors: PITH_ERR_SPACE, _STATE (no base is bound; a failed call left a slot half written).
    // Threads: work, stream.
    std::vector<std::byte> save(Work &work) const {
        pith_sizes sizes = sized<pith_sizes>();
        pith::check(pith_plan_sizes(get() ? plan() : nullptr, &sizes));
        std::vector<std::byte> bytes(static_cast<std::size_t>(sizes.save_bytes));
        std::size_t written = 0;
        work.check(try_save(work, bytes, written));
        bytes.resize(written);
        return bytes;
    }
    [[nodiscard]] pith_status try_save(Work &work, Bytes to, std::size_t &written) const noexcept {
        return pith_stream_save(work.get(), get(), to.data(), to.size(), &written);
    }
    // Inverse of save, into a stream of a plan of the same spec and layout.
    //   from  any bytes are safe; an external base must be bound before
    // Errors: PITH_ERR_MAGIC, _MISMATCH, _TRUNCATED, _CHECKSUM, _CORRUPT, and _STATE (no base is
    // bound): the stream is as before.
    // Threads: work, stream.
    void load(Work &work, ConstBytes from) { work.check(try_load(work, from)); }
    [[nodiscard]] pith_status try_load(Work &work, ConstBytes from) noexcept {
        return pith_stream_load(work.get(), get(), from.data(), from.size());
    }
    // What its calls met: frames, key frames, saturated values, poisoned groups.
    // Errors: none. Threads: stream.
    pith_stats stats() const noexcept {
        pith_stats s = sized<pith_stats>();
        (void)pith_stream_stats(get(), &s);
        return s;
    }

    // Ask for |x - x'| <= bound in a slot, instead of what the spec asks for.
    //   bound  finite; 0: as the spec says
    // Errors: PITH_ERR_ARG, _UNSUPPORTED (a codec without bound). Threads: work, stream.
    void set_bound(Work &work, std::uint64_t slot, double bound) {
        work.check(try_set_bound(work, slot, bound));
    }
    [[nodiscard]] pith_status try_set_bound(Work &work, std::uint64_t slot, double bound) noexcept {
        return pith_stream_set_bound(work.get(), get(), slot, bound);
    }
    // Ask for the spec's bound times a factor in a slot.
    //   factor  finite and above 0
    // Errors: PITH_ERR_ARG, _UNSUPPORTED (a codec without bound). Threads: work, stream.
    void scale_bound(Work &work, std::uint64_t slot, double factor) {
        work.check(try_scale_bound(work, slot, factor));
    }
    [[nodiscard]] pith_status try_scale_bound(Work &work, std::uint64_t slot,
                                              double factor) noexcept {
        return pith_stream_scale_bound(work.get(), get(), slot, factor);
    }
    // Set a slot's bound from what the gradient of its weights may take, and return it.
    //   budget  bounds.h
    // Errors: PITH_ERR_ARG, _UNSUPPORTED (a codec without bound). Threads: work, stream.
    double adapt(Work &work, std::uint64_t slot, const pith_budget &budget) {
        double bound = 0;
        work.check(try_adapt(work, slot, budget, bound));
        return bound;
    }
    [[nodiscard]] pith_status try_adapt(Work &work, std::uint64_t slot, const pith_budget &budget,
                                        double &bound) noexcept {
        return pith_stream_adapt(work.get(), get(), slot, &budget, &bound);
    }
    // A slot's absolute bound by set_bound or adapt, else 0.
    // Errors: none. Threads: stream.
    double bound(std::uint64_t slot) const noexcept { return pith_stream_bound(get(), slot); }
    // Share of a slot's values that were nonzero in its last encode, 0 to 1.
    // Errors: none. Threads: stream.
    double nonzero(std::uint64_t slot) const noexcept { return pith_stream_nonzero(get(), slot); }

    // Sets of elements (sparse.h). Streams of codecs but topk: PITH_ERR_UNSUPPORTED.

    // Say what later encodes of a slot choose from.
    //   request  sized<pith_sparse_request>() with a range, k or threshold; NULL: as the spec says
    // Errors: PITH_ERR_ARG (a range outside the slot; a threshold below 0 or not finite).
    // Threads: work, stream.
    void set_request(Work &work, std::uint64_t slot, const pith_sparse_request *request) {
        work.check(try_set_request(work, slot, request));
    }
    [[nodiscard]] pith_status try_set_request(Work &work, std::uint64_t slot,
                                              const pith_sparse_request *request) noexcept {
        return pith_sparse_set_request(work.get(), get(), slot, request);
    }
    // Say how many elements all ranks chose together in the slot's last step.
    //   chosen  by all ranks
    // Errors: PITH_ERR_STATE (nothing was chosen yet). Threads: work, stream.
    void report(Work &work, std::uint64_t slot, std::uint64_t chosen) {
        work.check(try_report(work, slot, chosen));
    }
    [[nodiscard]] pith_status try_report(Work &work, std::uint64_t slot,
                                         std::uint64_t chosen) noexcept {
        return pith_sparse_report(work.get(), get(), slot, chosen);
    }
    // What a slot's last encode or decode did, and the set that it holds.
    //   out  set on success
    // Errors: none of its own. Threads: stream.
    pith_sparse_state sparse_state(std::uint64_t slot) const {
        pith_sparse_state state{};
        check(try_sparse_state(slot, state));
        return state;
    }
    [[nodiscard]] pith_status try_sparse_state(std::uint64_t slot,
                                               pith_sparse_state &out) const noexcept {
        pith_sparse_state state = sized<pith_sparse_state>();
        const pith_status status = pith_sparse_get_state(get(), slot, &state);
        if (status == PITH_OK) out = state;
        return status;
    }
    // Make a slot hold the union or the intersection of the sets of frames.
    //   frames  of codec topk, of the slot's element count and block size
    //   how     PITH_SET_UNION or PITH_SET_INTERSECTION
    // Errors: PITH_ERR_MISMATCH, _UNSUPPORTED (a frame of a set that is held), those of damaged
    // frames, after which the slot holds none. Threads: work, stream.
    void hold(Work &work, std::uint64_t slot, const Frames &frames, int how = PITH_SET_UNION) {
        work.check(try_hold(work, slot, frames, how));
    }
    [[nodiscard]] pith_status try_hold(Work &work, std::uint64_t slot, const Frames &frames,
                                       int how = PITH_SET_UNION) noexcept {
        return pith_sparse_hold(work.get(), get(), slot, frames.data(), frames.lengths(),
                                frames.size(), how);
    }
    // Make a slot hold the elements [e * run, (e + 1) * run) of every number e.
    //   elements  in any order
    //   run       1: the elements themselves; the length of a row: rows
    // Errors: PITH_ERR_ARG (a run that begins outside the slot): it holds what it held.
    // Threads: work, stream.
    void hold_elements(Work &work, std::uint64_t slot, Span<const std::uint64_t> elements,
                       std::uint64_t run = 1) {
        work.check(try_hold_elements(work, slot, elements, run));
    }
    [[nodiscard]] pith_status try_hold_elements(Work &work, std::uint64_t slot,
                                                Span<const std::uint64_t> elements,
                                                std::uint64_t run = 1) noexcept {
        return pith_sparse_hold_elements(work.get(), get(), slot, elements.data(), elements.size(),
                                         run);
    }
    // Copy values at the held set's elements, ascending; without `from` those of the residual.
    //   from    the slot's piece, or the whole tensor
    //   values  of as many elements as the set, to whose dtype values are rounded
    // Errors: PITH_ERR_STATE (no set; no error feedback), _SHAPE, _DTYPE. Threads: work, stream.
    void gather(Work &work, std::uint64_t slot, const ConstView &from, const View &values) const {
        work.check(try_gather(work, slot, from, values));
    }
    [[nodiscard]] pith_status try_gather(Work &work, std::uint64_t slot, const ConstView &from,
                                         const View &values) const noexcept {
        return pith_sparse_gather(work.get(), get(), slot, &from, &values);
    }
    void gather(Work &work, std::uint64_t slot, const View &values) const {
        work.check(try_gather(work, slot, values));
    }
    [[nodiscard]] pith_status try_gather(Work &work, std::uint64_t slot,
                                         const View &values) const noexcept {
        return pith_sparse_gather(work.get(), get(), slot, nullptr, &values);
    }
    // Add scale * values to a tensor at the held set's elements, in f32.
    //   values  of as many elements as the set, ascending
    //   to      the slot's piece, or the whole tensor
    // Errors: PITH_ERR_STATE (no set), _SHAPE, _DTYPE. Threads: work, stream.
    void scatter(Work &work, std::uint64_t slot, const ConstView &values, float scale,
                 const View &to) const {
        work.check(try_scatter(work, slot, values, scale, to));
    }
    [[nodiscard]] pith_status try_scatter(Work &work, std::uint64_t slot, const ConstView &values,
                                          float scale, const View &to) const noexcept {
        return pith_sparse_scatter(work.get(), get(), slot, &values, scale, &to);
    }
    // Set the residual to 0 at the held set's elements.
    // Errors: PITH_ERR_STATE (no set; no error feedback). Threads: work, stream.
    void clear(Work &work, std::uint64_t slot) { work.check(try_clear(work, slot)); }
    [[nodiscard]] pith_status try_clear(Work &work, std::uint64_t slot) noexcept {
        return pith_sparse_clear(work.get(), get(), slot);
    }

private:
    // Whether a view can be the external base: what pith.h takes is a pointer alone.
    pith_status base_fits(const View &base) const noexcept {
        pith_layout l = sized<pith_layout>();
        if (!get() || pith_plan_layout(plan(), &l) != PITH_OK) return PITH_ERR_ARG;
        if (base.dtype != l.base_dtype) return PITH_ERR_DTYPE;
        ConstView whole;
        whole.ndim = l.ndim;
        for (std::uint32_t i = 0; i < l.ndim; i++) whole.shape[i] = l.shape[i];
        if (base.ndim > PITH_MAX_NDIM || base.count() != whole.count()) return PITH_ERR_SHAPE;
        std::int64_t stride = 1;
        for (std::uint32_t i = base.ndim; i-- > 0;) {
            if (base.shape[i] > 1 && base.stride[i] != stride) return PITH_ERR_SHAPE;
            stride *= static_cast<std::int64_t>(base.shape[i]);
        }
        return PITH_OK;
    }

    detail::Placed<pith_stream> stream_;
};

// ---- Items ------------------------------------------------------------------------------------
// Lists are of pith_item and pith_sum: std::vector, an array, or a Span of them. Items of a list
// may be of different streams and plans.

// An item to encode.
//   stream  whose slot it is; must outlive the item, as all that is named here
//   slot    0 to slots - 1, and once in a list
//   values  the slot's piece, or the whole tensor
//   frame   where the frame goes: Plan::frame_bytes suffice
// Errors: none; they are the call's. Threads: any.
inline pith_item encode_item(Stream &stream, std::uint64_t slot, const ConstView &values,
                             Bytes frame) noexcept {
    pith_item item = sized<pith_item>();
    item.stream = stream.get();
    item.slot = slot;
    item.view = values;
    item.frame = frame.data();
    item.capacity = frame.size();
    return item;
}
// An item to decode.
//   frame   any bytes; what follows the frame in them is ignored
//   values  the slot's piece, or the whole tensor; without it, of streams with a base, only the
//           stream moves on
// Errors: none; they are the call's. Threads: any.
inline pith_item decode_item(Stream &stream, std::uint64_t slot, ConstBytes frame,
                             const View &values = View()) noexcept {
    pith_item item = sized<pith_item>();
    item.stream = stream.get();
    item.slot = slot;
    item.view = values;
    item.frame = const_cast<void *>(frame.data());
    item.length = frame.size();
    return item;
}

// Encode one item, or a list: item.length bytes are in each frame, and each stream has moved on by
// a step.
//   items  as encode_item makes them; status and length of each are set
//   flags  PITH_KEY_FRAME, PITH_SAME_SET, PITH_HELD_SET, PITH_SAME_BLOCKS or 0
// Errors: PITH_ERR_SPACE, _SHAPE, _DTYPE, _ARG: nothing changed. _BASE: others changed the base.
// _STATE: the slot wants a key frame. The status is of the lowest item that failed, Error::item.
// Threads: work, the items' streams.
[[nodiscard]] inline pith_status try_encode(Work &work, Span<pith_item> items,
                                            std::uint32_t flags = 0) noexcept {
    return pith_encode(work.get(), items.data(), items.size(), flags);
}
[[nodiscard]] inline pith_status try_encode(Work &work, pith_item &item,
                                            std::uint32_t flags = 0) noexcept {
    return pith_encode(work.get(), &item, 1, flags);
}
inline void encode(Work &work, Span<pith_item> items, std::uint32_t flags = 0) {
    work.check(try_encode(work, items, flags));
}
inline void encode(Work &work, pith_item &item, std::uint32_t flags = 0) {
    work.check(try_encode(work, item, flags));
}
// Encode one slot, into memory of the caller's or into a vector of the frame's length.
//   stream, slot, values, frame  as of encode_item
//   flags                        PITH_KEY_FRAME, PITH_SAME_SET, PITH_HELD_SET or 0
//   length                       bytes of the frame, which the throwing form returns; 0 on failure
// Errors: as above. Threads: work, stream.
[[nodiscard]] inline pith_status try_encode(Work &work, Stream &stream, std::uint64_t slot,
                                            const ConstView &values, Bytes frame,
                                            std::size_t &length, std::uint32_t flags = 0) noexcept {
    pith_item item = encode_item(stream, slot, values, frame);
    const pith_status status = try_encode(work, item, flags);
    length = item.length;
    return status;
}
inline std::size_t encode(Work &work, Stream &stream, std::uint64_t slot, const ConstView &values,
                          Bytes frame, std::uint32_t flags = 0) {
    std::size_t length = 0;
    work.check(try_encode(work, stream, slot, values, frame, length, flags));
    return length;
}
inline std::vector<std::byte> encode(Work &work, Stream &stream, std::uint64_t slot,
                                     const ConstView &values, std::uint32_t flags = 0) {
    if (!stream) check(PITH_ERR_ARG);
    const bool key = (flags & PITH_KEY_FRAME) || pith_plan_is_key(stream.plan(), stream.step(slot));
    std::vector<std::byte> frame(
        static_cast<std::size_t>(pith_plan_frame_bytes(stream.plan(), slot, key ? 1 : 0)));
    frame.resize(encode(work, stream, slot, values, Bytes(frame), flags));
    return frame;
}

// Decode one item, or a list. With a base each stream moves on by a step.
//   items  as decode_item makes them; the status of each is set
//   flags  PITH_ADD (view += decoded; streams do not change) or 0
// Errors: PITH_ERR_MISMATCH, _STEP, _BASE, _LIMIT: nothing was written. _TRUNCATED, _CHECKSUM,
// _CORRUPT and their kin: the frame is damaged. _STATE: the slot wants a key frame. The status is
// of the lowest item that failed, Error::item. Threads: work, the items' streams.
[[nodiscard]] inline pith_status try_decode(Work &work, Span<pith_item> items,
                                            std::uint32_t flags = 0) noexcept {
    return pith_decode(work.get(), items.data(), items.size(), flags);
}
[[nodiscard]] inline pith_status try_decode(Work &work, pith_item &item,
                                            std::uint32_t flags = 0) noexcept {
    return pith_decode(work.get(), &item, 1, flags);
}
inline void decode(Work &work, Span<pith_item> items, std::uint32_t flags = 0) {
    work.check(try_decode(work, items, flags));
}
inline void decode(Work &work, pith_item &item, std::uint32_t flags = 0) {
    work.check(try_decode(work, item, flags));
}
// Decode a frame of one slot.
//   stream, slot, frame, values  as of decode_item
//   flags                        PITH_ADD or 0
// Errors: as above. Threads: work, stream.
[[nodiscard]] inline pith_status try_decode(Work &work, Stream &stream, std::uint64_t slot,
                                            ConstBytes frame, const View &values = View(),
                                            std::uint32_t flags = 0) noexcept {
    pith_item item = decode_item(stream, slot, frame, values);
    return try_decode(work, item, flags);
}
inline void decode(Work &work, Stream &stream, std::uint64_t slot, ConstBytes frame,
                   const View &values = View(), std::uint32_t flags = 0) {
    work.check(try_decode(work, stream, slot, frame, values, flags));
}

// ---- Sums -------------------------------------------------------------------------------------

// A sum of frames of one slot: scale * (decoded frame 0 + decoded frame 1 + ...), in that order.
//   stream  whose frames they are; it counts them. Must outlive the sum, as all that is named here
//   slot    0 to slots - 1
//   frames  of fixed rate or of codec topk, without a base
//   values  where reduce puts the sum; reduce_encode does not use it
//   scale   multiplied once; 0 stands for 1
// Errors: none; they are the call's. Threads: any.
inline pith_sum sum_of(Stream &stream, std::uint64_t slot, const Frames &frames,
                       const View &values = View(), float scale = 1) noexcept {
    pith_sum sum = sized<pith_sum>();
    sum.stream = stream.get();
    sum.slot = slot;
    sum.frames = frames.data();
    sum.lengths = frames.lengths();
    sum.count = frames.size();
    sum.scale = scale;
    sum.view = values;
    return sum;
}

// Write one sum, or each of a list, to its view, rounded once to its dtype.
//   sums  as sum_of makes them; the status of each is set
// Errors: PITH_ERR_MISMATCH (a frame of another plan or size), _UNSUPPORTED (a base, or neither a
// fixed rate nor topk), those of damaged frames. The status is of the lowest sum that failed,
// Error::item.
// Threads: work, the sums' streams.
[[nodiscard]] inline pith_status try_reduce(Work &work, Span<pith_sum> sums) noexcept {
    return pith_reduce(work.get(), sums.data(), sums.size());
}
[[nodiscard]] inline pith_status try_reduce(Work &work, pith_sum &sum) noexcept {
    return pith_reduce(work.get(), &sum, 1);
}
inline void reduce(Work &work, Span<pith_sum> sums) { work.check(try_reduce(work, sums)); }
inline void reduce(Work &work, pith_sum &sum) { work.check(try_reduce(work, sum)); }
// Write the sum of frames of one slot to a view.
//   stream, slot, frames, values, scale  as of sum_of
// Errors: as above. Threads: work, stream.
[[nodiscard]] inline pith_status try_reduce(Work &work, Stream &stream, std::uint64_t slot,
                                            const Frames &frames, const View &values,
                                            float scale = 1) noexcept {
    pith_sum sum = sum_of(stream, slot, frames, values, scale);
    return try_reduce(work, sum);
}
inline void reduce(Work &work, Stream &stream, std::uint64_t slot, const Frames &frames,
                   const View &values, float scale = 1) {
    work.check(try_reduce(work, stream, slot, frames, values, scale));
}

// Encode one sum, or sum i of a list as item i, without writing the tensor in between.
//   sums   as sum_of makes them
//   items  as encode_item makes them, of streams with layout dtype f32 and no base; their views are
//          not used; status and length of each are set
// Errors: PITH_ERR_ARG (lists of two lengths; a written frame that overlaps a read one), and those
// of reduce and encode. The status is of the lowest item that failed, Error::item.
// Threads: work, the streams of both lists.
[[nodiscard]] inline pith_status try_reduce_encode(Work &work, Span<const pith_sum> sums,
                                                   Span<pith_item> items) noexcept {
    if (sums.size() != items.size()) return PITH_ERR_ARG;
    return pith_reduce_encode(work.get(), sums.data(), items.data(), items.size());
}
[[nodiscard]] inline pith_status try_reduce_encode(Work &work, const pith_sum &sum,
                                                   pith_item &item) noexcept {
    return pith_reduce_encode(work.get(), &sum, &item, 1);
}
inline void reduce_encode(Work &work, Span<const pith_sum> sums, Span<pith_item> items) {
    if (sums.size() != items.size()) check(PITH_ERR_ARG);
    work.check(try_reduce_encode(work, sums, items));
}
inline void reduce_encode(Work &work, const pith_sum &sum, pith_item &item) {
    work.check(try_reduce_encode(work, sum, item));
}
// Encode the sum of frames of one slot as a frame of another stream's.
//   stream, slot, frames, scale  as of sum_of
//   out, out_slot, frame         as of encode_item
//   length                       bytes of the frame, which the throwing form returns
// Errors: as above. Threads: work, stream, out.
[[nodiscard]] inline pith_status try_reduce_encode(Work &work, Stream &stream, std::uint64_t slot,
                                                   const Frames &frames, float scale, Stream &out,
                                                   std::uint64_t out_slot, Bytes frame,
                                                   std::size_t &length) noexcept {
    pith_item item = encode_item(out, out_slot, ConstView(), frame);
    const pith_status status =
        try_reduce_encode(work, sum_of(stream, slot, frames, View(), scale), item);
    length = item.length;
    return status;
}
inline std::size_t reduce_encode(Work &work, Stream &stream, std::uint64_t slot,
                                 const Frames &frames, float scale, Stream &out,
                                 std::uint64_t out_slot, Bytes frame) {
    std::size_t length = 0;
    work.check(try_reduce_encode(work, stream, slot, frames, scale, out, out_slot, frame, length));
    return length;
}

// ---- Caches -----------------------------------------------------------------------------------

// A cache of tokens (kv.h): pages of what is finished, and the newest tokens exact.
class Cache {
public:
    Cache() noexcept = default;
    // Make an empty cache.
    //   plan    of codec kv; must outlive the cache
    //   tokens  that can be appended in all; 0: as many as the layout has
    // Errors: PITH_ERR_UNSUPPORTED (a plan without caches), _MEMORY. Threads: any.
    explicit Cache(const Plan &plan, std::uint64_t tokens = 0) {
        pith_error error = sized<pith_error>();
        check(try_create(*this, plan, tokens, &error), &error);
    }
    [[nodiscard]] static pith_status try_create(Cache &cache, const Plan &plan,
                                                std::uint64_t tokens = 0,
                                                pith_error *error = nullptr) noexcept {
        return cache.make(plan.get(), tokens, error,
                          [&](void *memory, std::size_t size, pith_kv **made) {
                              return pith_kv_init(plan.get(), memory, size, made, error);
                          });
    }

    pith_kv *get() const noexcept { return cache_.get(); }
    explicit operator bool() const noexcept { return get() != nullptr; }
    // Take away the mark of a call that never returned; the cache may have part of its tokens.
    // Errors: none. Threads: cache, which no call may be using any more.
    void unlock() noexcept { pith_kv_unlock(get()); }
    // Tokens held; those of them that are finished; those that can still be appended.
    // Errors: none. Threads: cache.
    std::uint64_t count() const noexcept { return pith_kv_count(get()); }
    std::uint64_t finished() const noexcept { return pith_kv_finished(get()); }
    std::uint64_t remaining() const noexcept { return pith_kv_remaining(get()); }

    // Append tokens.
    //   values  [n, heads, dim] of the layout's dtype
    // Errors: PITH_ERR_SPACE (more than remaining()), _SHAPE, _DTYPE: the cache is as before.
    // Threads: work, cache.
    void append(Work &work, const ConstView &values) { work.check(try_append(work, values)); }
    [[nodiscard]] pith_status try_append(Work &work, const ConstView &values) noexcept {
        pith_kv *const one = get();
        return pith_kv_append(work.get(), &one, &values, 1);
    }
    // Read a range of tokens and heads.
    //   first, count  tokens
    //   head, heads   heads from `head` on
    //   values        [count, heads, dim] of f32, bf16 or f16
    // Errors: PITH_ERR_ARG (beyond what is held), _SHAPE, _DTYPE. Threads: work, cache.
    void read(Work &work, std::uint64_t first, std::uint64_t count, std::uint32_t head,
              std::uint32_t heads, const View &values) const {
        work.check(try_read(work, first, count, head, heads, values));
    }
    [[nodiscard]] pith_status try_read(Work &work, std::uint64_t first, std::uint64_t count,
                                       std::uint32_t head, std::uint32_t heads,
                                       const View &values) const noexcept {
        const pith_kv_range range = {get(), first, count, head, heads, values};
        return pith_kv_read(work.get(), &range, 1);
    }
    // Keep the first tokens.
    //   tokens  at most count()
    // Errors: PITH_ERR_ARG beyond that. Threads: work, cache.
    void truncate(Work &work, std::uint64_t tokens) { work.check(try_truncate(work, tokens)); }
    [[nodiscard]] pith_status try_truncate(Work &work, std::uint64_t tokens) noexcept {
        return pith_kv_truncate(work.get(), get(), tokens);
    }
    // A second cache that begins with this one's first tokens, whose complete pages it reads here:
    // this cache must stay, and not be truncated below `tokens`, loaded or made again.
    //   tokens  at most count()
    //   memory  of the child, in tokens as when a cache is made: window + n + page to append n more
    //   flags   PITH_KV_COPY: copy everything, which wants `tokens` more memory; or 0
    // Errors: PITH_ERR_SPACE (too little memory), _ARG, _MEMORY. Threads: work, cache.
    Cache fork(Work &work, std::uint64_t tokens, std::uint64_t memory,
               std::uint32_t flags = 0) const {
        if (!get()) pith::check(PITH_ERR_ARG);
        Cache child;
        const pith_status status = try_fork(work, child, tokens, memory, flags);
        if (status == PITH_ERR_MEMORY) pith::check(status);
        work.check(status);
        return child;
    }
    [[nodiscard]] pith_status try_fork(Work &work, Cache &child, std::uint64_t tokens,
                                       std::uint64_t memory,
                                       std::uint32_t flags = 0) const noexcept {
        return child.make(
            plan_, memory, nullptr, [&](void *place, std::size_t size, pith_kv **made) {
                return pith_kv_fork(work.get(), get(), tokens, flags, place, size, made);
            });
    }
    // Groups that decode to NaN, and results that overflowed, since the cache was made.
    // Errors: none. Threads: cache.
    pith_stats stats() const noexcept {
        pith_stats s = sized<pith_stats>();
        (void)pith_kv_stats(get(), &s);
        return s;
    }
    // Serialise as frames: save_bytes() for the cache as it is.
    //   to       memory of at least that many bytes
    //   written  bytes that it took
    // Errors: PITH_ERR_SPACE. Threads: work, cache.
    std::uint64_t save_bytes() const noexcept { return pith_kv_save_bytes(get()); }
    std::vector<std::byte> save(Work &work) const {
        if (!get()) pith::check(PITH_ERR_ARG);
        std::vector<std::byte> bytes(static_cast<std::size_t>(save_bytes()));
        std::size_t written = 0;
        work.check(try_save(work, bytes, written));
        bytes.resize(written);
        return bytes;
    }
    [[nodiscard]] pith_status try_save(Work &work, Bytes to, std::size_t &written) const noexcept {
        return pith_kv_save(work.get(), get(), to.data(), to.size(), &written);
    }
    // Inverse of save; tokens held before are dropped.
    //   from  any bytes are safe; they end with the last frame
    // Errors: PITH_ERR_MISMATCH, _SPACE, those of damaged frames: the cache is as before.
    // Threads: work, cache.
    void load(Work &work, ConstBytes from) { work.check(try_load(work, from)); }
    [[nodiscard]] pith_status try_load(Work &work, ConstBytes from) noexcept {
        return pith_kv_load(work.get(), get(), from.data(), from.size());
    }
    // Append what tokens differ from a base by, and set base := round(base + decoded).
    //   values  [n, heads, dim] of the layout's dtype
    //   base    like values in shape, dense, f32, bf16 or f16
    // Errors: PITH_ERR_UNSUPPORTED (a plan that kv.h does not allow), _SPACE, _SHAPE, _DTYPE.
    // Threads: work, cache.
    void append_delta(Work &work, const ConstView &values, const View &base) {
        work.check(try_append_delta(work, values, base));
    }
    [[nodiscard]] pith_status try_append_delta(Work &work, const ConstView &values,
                                               const View &base) noexcept {
        return pith_kv_append_delta(work.get(), get(), &values, &base);
    }
    // The reader's side: base := round(base + decoded) for a range of tokens, all heads.
    //   first, count  tokens
    //   base          [count, heads, dim], dense, f32, bf16 or f16
    // Errors: PITH_ERR_UNSUPPORTED, _ARG, _SHAPE, _DTYPE. Threads: work, cache.
    void read_add(Work &work, std::uint64_t first, std::uint64_t count, const View &base) const {
        work.check(try_read_add(work, first, count, base));
    }
    [[nodiscard]] pith_status try_read_add(Work &work, std::uint64_t first, std::uint64_t count,
                                           const View &base) const noexcept {
        return pith_kv_read_add(work.get(), get(), first, count, &base);
    }

private:
    template <class Init>
    pith_status make(const pith_plan *plan, std::uint64_t tokens, pith_error *error,
                     const Init &init) noexcept {
        if (!plan) return PITH_ERR_ARG;
        const std::uint64_t bytes = pith_kv_bytes(plan, tokens);
        if (bytes == 0) {
            const pith_status status = pith_kv_check(plan, error);
            return status != PITH_OK ? status : PITH_ERR_MEMORY;
        }
        const pith_status status = cache_.place(bytes, init);
        if (status == PITH_OK) plan_ = plan;
        return status;
    }

    const pith_plan *plan_ = nullptr;
    detail::Placed<pith_kv> cache_;
};

// Append to many caches: the tokens of values[i] to caches[i].
//   caches  the get() of each, none twice
//   values  as many views, [n, heads, dim] each
// Errors: PITH_ERR_ARG (lists of two lengths), _SPACE, _SHAPE, _DTYPE: all caches are as before,
// and Error::item is the number of the one that it is about. Threads: work, the caches.
[[nodiscard]] inline pith_status try_append(Work &work, Span<pith_kv *const> caches,
                                            Span<const pith_view> values) noexcept {
    if (caches.size() != values.size()) return PITH_ERR_ARG;
    return pith_kv_append(work.get(), caches.data(), values.data(), caches.size());
}
inline void append(Work &work, Span<pith_kv *const> caches, Span<const pith_view> values) {
    if (caches.size() != values.size()) check(PITH_ERR_ARG);
    work.check(try_append(work, caches, values));
}
// The same for caches of one plan whose tokens lie alike, at less cost.
//   like  dtype, shape and strides of each one's tokens; its data is not used
//   to    a cache and the first element of its tokens, for each
// Errors: as of append. Threads: work, the caches.
[[nodiscard]] inline pith_status try_append_batch(Work &work, const ConstView &like,
                                                  Span<const pith_kv_tokens> to) noexcept {
    return pith_kv_append_batch(work.get(), &like, to.data(), to.size());
}
inline void append_batch(Work &work, const ConstView &like, Span<const pith_kv_tokens> to) {
    work.check(try_append_batch(work, like, to));
}

// Read ranges of one cache or of several, into views that do not overlap.
//   ranges  of each a cache, tokens, heads and a view [count, heads, dim] of f32, bf16 or f16
// Errors: PITH_ERR_ARG (beyond what is held), _SHAPE, _DTYPE, _SPACE (the work is of other plans):
// nothing was read. Threads: work, the caches.
[[nodiscard]] inline pith_status try_read(Work &work, Span<const pith_kv_range> ranges) noexcept {
    return pith_kv_read(work.get(), ranges.data(), ranges.size());
}
inline void read(Work &work, Span<const pith_kv_range> ranges) {
    work.check(try_read(work, ranges));
}

// ---- Frames and one-shot calls ----------------------------------------------------------------

// Read and check a frame's header; the payload is not touched and may be missing.
//   frame  any bytes; pith_info points into them
// Errors: PITH_ERR_TRUNCATED (info.header_bytes are wanted), _MAGIC, _NEWER, _CHECKSUM, _CORRUPT.
// Threads: any.
[[nodiscard]] inline pith_status try_inspect(ConstBytes frame, pith_info &info,
                                             pith_error *error = nullptr) noexcept {
    info = sized<pith_info>();
    return pith_inspect(frame.data(), frame.size(), &info, error);
}
inline pith_info inspect(ConstBytes frame) {
    pith_info info;
    pith_error error = sized<pith_error>();
    check(try_inspect(frame, info, &error), &error);
    return info;
}
// The largest distance between an encoded and its decoded value that a frame admits.
//   frame  any bytes
// Errors: those of damaged frames. Threads: any.
[[nodiscard]] inline pith_status try_error_bound(ConstBytes frame, double &bound,
                                                 pith_error *error = nullptr) noexcept {
    return pith_error_bound(frame.data(), frame.size(), &bound, error);
}
inline double error_bound(ConstBytes frame) {
    double bound = 0;
    pith_error error = sized<pith_error>();
    check(try_error_bound(frame, bound, &error), &error);
    return bound;
}
// Check everything that can be checked without a base: structure, checksums, every block.
//   frame  any bytes
//   env    NULL: defaults
// Errors: those of damaged frames, PITH_ERR_MEMORY. Threads: any.
[[nodiscard]] inline pith_status try_verify(ConstBytes frame, const pith_env *env = nullptr,
                                            pith_error *error = nullptr) noexcept {
    return pith_verify(frame.data(), frame.size(), env, error);
}
inline void verify(ConstBytes frame, const pith_env *env = nullptr) {
    pith_error error = sized<pith_error>();
    check(try_verify(frame, env, &error), &error);
}

// Bytes that suffice for the frame that compress makes of the same arguments.
//   spec, values, base, layout  as of compress; the views' data is not used
// Errors: PITH_ERR_SPEC, _ARG, _DTYPE, _SHAPE, _UNSUPPORTED. Threads: any.
[[nodiscard]] inline pith_status try_compress_bound(const char *spec, const ConstView &values,
                                                    const ConstView *base,
                                                    const pith_layout *layout, std::uint64_t &bytes,
                                                    pith_error *error = nullptr) noexcept {
    return pith_compress_bound(spec, &values, base, layout, &bytes, error);
}
inline std::uint64_t compress_bound(const char *spec, const ConstView &values,
                                    const ConstView *base = nullptr,
                                    const pith_layout *layout = nullptr) {
    std::uint64_t bytes = 0;
    pith_error error = sized<pith_error>();
    check(try_compress_bound(spec, values, base, layout, bytes, &error), &error);
    return bytes;
}
// One frame of a view, without plan or stream.
//   spec    "name:key=value,..."
//   values  what is encoded
//   base    NULL, or a view of the same element count
//   layout  flags, source and exempt ranges; NULL: none
//   env     NULL: defaults
//   frame   where it goes, compress_bound bytes suffice; the throwing form returns a vector
//   length  bytes of the frame
// Errors: PITH_ERR_SPEC, _ARG, _DTYPE, _SHAPE, _SPACE, _UNSUPPORTED, _MEMORY. Threads: any.
[[nodiscard]] inline pith_status try_compress(const char *spec, const ConstView &values,
                                              const ConstView *base, const pith_layout *layout,
                                              const pith_env *env, Bytes frame, std::size_t &length,
                                              pith_error *error = nullptr) noexcept {
    return pith_compress(spec, &values, base, layout, env, frame.data(), frame.size(), &length,
                         error);
}
inline std::vector<std::byte> compress(const char *spec, const ConstView &values,
                                       const ConstView *base = nullptr,
                                       const pith_layout *layout = nullptr,
                                       const pith_env *env = nullptr) {
    const std::uint64_t bound = compress_bound(spec, values, base, layout);
    if (bound > PTRDIFF_MAX) check(PITH_ERR_MEMORY);
    std::vector<std::byte> frame(static_cast<std::size_t>(bound));
    std::size_t length = 0;
    pith_error error = sized<pith_error>();
    check(try_compress(spec, values, base, layout, env, frame, length, &error), &error);
    frame.resize(length);
    return frame;
}
// Decode a frame, without plan or stream.
//   frame   any bytes
//   values  of the frame's element count
//   base    the view that it was encoded against; NULL: none
//   env     threads and output limit; NULL: defaults
// Errors: PITH_ERR_SHAPE, _DTYPE, _BASE, _LIMIT, those of damaged frames, _MEMORY. Threads: any.
[[nodiscard]] inline pith_status try_decompress(ConstBytes frame, const View &values,
                                                const ConstView *base = nullptr,
                                                const pith_env *env = nullptr,
                                                pith_error *error = nullptr) noexcept {
    return pith_decompress(frame.data(), frame.size(), base, env, &values, error);
}
inline void decompress(ConstBytes frame, const View &values, const ConstView *base = nullptr,
                       const pith_env *env = nullptr) {
    pith_error error = sized<pith_error>();
    check(try_decompress(frame, values, base, env, &error), &error);
}
// Decode a range of the tensor taken flat.
//   frame   any bytes
//   first   element at which the range begins
//   values  of the range's element count
//   base    the whole base; NULL: none
//   env     threads and output limit; NULL: defaults
// Errors: PITH_ERR_SHAPE (a range beyond the tensor), and those of decompress. Threads: any.
[[nodiscard]] inline pith_status try_decode_range(ConstBytes frame, std::uint64_t first,
                                                  const View &values,
                                                  const ConstView *base = nullptr,
                                                  const pith_env *env = nullptr,
                                                  pith_error *error = nullptr) noexcept {
    return pith_decode_range(frame.data(), frame.size(), base, first, env, &values, error);
}
inline void decode_range(ConstBytes frame, std::uint64_t first, const View &values,
                         const ConstView *base = nullptr, const pith_env *env = nullptr) {
    pith_error error = sized<pith_error>();
    check(try_decode_range(frame, first, values, base, env, &error), &error);
}

} // namespace pith

#endif
