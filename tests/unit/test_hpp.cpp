// test_hpp.cpp - pith.hpp against the C calls that it stands for: the same bytes, statuses, texts.
// SPDX-License-Identifier: Apache-2.0
#include "pith/pith.hpp"

// Once more: the second time must change nothing.
#include "pith/pith.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace {

// ---- Checks -----------------------------------------------------------------------------------

#define CHECK(...)                                                                 \
    do {                                                                           \
        if (!(__VA_ARGS__)) {                                                      \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #__VA_ARGS__); \
            std::exit(1);                                                          \
        }                                                                          \
    } while (0)
#define CHECK_OK(...) CHECK((__VA_ARGS__) == PITH_OK)

// What the call throws: its status must be `wanted`.
template <class Call>
pith::Error thrown(pith_status wanted, const Call &call) {
    try {
        call();
    } catch (const pith::Error &error) {
        if (error.status() != wanted) std::fprintf(stderr, "%s\n", error.what());
        CHECK(error.status() == wanted);
        return error;
    }
    std::fprintf(stderr, "%s was to be thrown\n", pith_status_name(wanted));
    std::exit(1);
}

using Floats = std::vector<float>;
using Frame = std::vector<std::byte>;

Floats values(std::size_t count, unsigned seed) {
    Floats v(count);
    for (std::size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        v[i] = static_cast<float>(seed >> 8) / 8388608.0f - 1.0f;
    }
    return v;
}

bool same(const void *a, const void *b, std::size_t bytes) { return std::memcmp(a, b, bytes) == 0; }
bool same(const Floats &a, const Floats &b) {
    return a.size() == b.size() && same(a.data(), b.data(), a.size() * sizeof(float));
}

// One end of a sequence of frames by the C calls alone.
class End {
public:
    explicit End(const pith_plan *plan, const pith_stream_options *options = nullptr) {
        pith_sizes sizes{};
        sizes.size = sizeof sizes;
        CHECK_OK(pith_plan_sizes(plan, &sizes));
        memory_.resize(static_cast<std::size_t>(sizes.stream_bytes));
        work_memory_.resize(static_cast<std::size_t>(pith_work_bytes(&plan, 1, 0)));
        CHECK_OK(pith_work_init(work_memory_.data(), work_memory_.size(), nullptr, &work, nullptr));
        CHECK_OK(pith_stream_init(plan, memory_.data(), memory_.size(), options, &stream, nullptr));
    }
    Frame encode(const pith_view &view, std::uint64_t slot = 0, std::uint32_t flags = 0) {
        Frame frame(100000);
        pith_item item{};
        item.size = sizeof item;
        item.stream = stream;
        item.slot = slot;
        item.view = view;
        item.frame = frame.data();
        item.capacity = frame.size();
        CHECK_OK(pith_encode(work, &item, 1, flags));
        frame.resize(item.length);
        return frame;
    }

    pith_work *work = nullptr;
    pith_stream *stream = nullptr;

private:
    std::vector<unsigned char> memory_, work_memory_;
};

// ---- Types ------------------------------------------------------------------------------------

template <class Handle>
constexpr bool is_handle =
    !std::is_copy_constructible_v<Handle> && !std::is_copy_assignable_v<Handle> &&
    std::is_nothrow_move_constructible_v<Handle> && std::is_nothrow_move_assignable_v<Handle> &&
    std::is_nothrow_default_constructible_v<Handle> && !std::is_convertible_v<Handle, bool>;
static_assert(is_handle<pith::Plan> && is_handle<pith::Work>);
static_assert(is_handle<pith::Stream> && is_handle<pith::Cache>);
static_assert(!std::is_convertible_v<const pith::Plan &, pith::Work>);
static_assert(!std::is_convertible_v<const pith::Plan &, pith::Stream>);
static_assert(!std::is_convertible_v<const pith::Plan &, pith::Cache>);

static_assert(std::is_base_of_v<std::exception, pith::Error>);
static_assert(std::is_nothrow_copy_constructible_v<pith::Error>);

// What may be written can be read; not the other way round.
static_assert(std::is_convertible_v<pith::View, pith::ConstView>);
static_assert(!std::is_convertible_v<pith::ConstView, pith::View>);
static_assert(!std::is_convertible_v<pith_view, pith::View>);
static_assert(std::is_convertible_v<pith::Bytes, pith::ConstBytes>);
static_assert(!std::is_convertible_v<pith::ConstBytes, pith::Bytes>);

// Spans are made of containers that stay, or that are only read for the call.
static_assert(std::is_convertible_v<std::vector<int> &, pith::Span<int>>);
static_assert(std::is_convertible_v<std::array<int, 3> &, pith::Span<const int>>);
static_assert(std::is_convertible_v<int (&)[3], pith::Span<int>>);
static_assert(std::is_convertible_v<pith::Span<int>, pith::Span<const int>>);
static_assert(std::is_convertible_v<std::vector<int>, pith::Span<const int>>);
static_assert(!std::is_convertible_v<std::vector<int>, pith::Span<int>>);
static_assert(!std::is_convertible_v<const std::vector<int> &, pith::Span<int>>);
static_assert(!std::is_convertible_v<std::vector<short> &, pith::Span<int>>);
static_assert(!std::is_convertible_v<pith_item &, pith::Span<pith_item>>);
static_assert(std::is_convertible_v<std::vector<std::byte> &, pith::Bytes>);
static_assert(std::is_convertible_v<std::array<unsigned char, 4> &, pith::Bytes>);
static_assert(std::is_convertible_v<char (&)[4], pith::Bytes>);
static_assert(std::is_convertible_v<pith::Span<std::byte>, pith::Bytes>);
static_assert(std::is_convertible_v<const std::string &, pith::ConstBytes>);
static_assert(!std::is_convertible_v<const std::vector<std::byte> &, pith::Bytes>);
static_assert(!std::is_convertible_v<std::vector<std::byte>, pith::Bytes>);
static_assert(!std::is_convertible_v<std::vector<float> &, pith::Bytes>);
static_assert(!std::is_convertible_v<std::vector<float> &, pith::ConstBytes>);
static_assert(!std::is_convertible_v<std::vector<bool> &, pith::Bytes>);

template <class C, class = void>
constexpr bool has_view = false;
template <class C>
constexpr bool has_view<C, std::void_t<decltype(pith::view(std::declval<C>()))>> = true;
static_assert(has_view<Floats &> && has_view<const Floats &> && has_view<pith::Span<float>>);
static_assert(!has_view<Floats>); // nothing of it is left when the view is used
static_assert(!has_view<int>);

static_assert(pith::Dtype<short>::value == PITH_I16);
static_assert(pith::Dtype<unsigned short>::value == PITH_U16);
static_assert(pith::Dtype<std::int32_t>::value == PITH_I32);
static_assert(pith::Dtype<std::uint32_t>::value == PITH_U32);
static_assert(pith::Dtype<long long>::value == PITH_I64);
static_assert(pith::Dtype<unsigned long long>::value == PITH_U64);
static_assert(pith::Dtype<std::int64_t>::value == PITH_I64);
static_assert(pith::Dtype<std::int8_t>::value == PITH_I8);
static_assert(pith::Dtype<std::uint8_t>::value == PITH_U8);
static_assert(pith::Dtype<std::byte>::value == PITH_U8);
static_assert(pith::Dtype<bool>::value == PITH_BOOL);
static_assert(pith::Dtype<float>::value == PITH_F32);
static_assert(pith::Dtype<double>::value == PITH_F64);

struct bfloat16 {
    std::uint16_t bits;
};

} // namespace

template <>
struct pith::Dtype<bfloat16> : pith::DtypeIs<PITH_BF16> {};

namespace {

// ---- Views and structs ------------------------------------------------------------------------

bool equal(const pith_view &a, const pith_view &b) {
    bool alike = a.data == b.data && a.dtype == b.dtype && a.ndim == b.ndim;
    for (std::uint32_t i = 0; alike && i < a.ndim; i++)
        alike = a.shape[i] == b.shape[i] && a.stride[i] == b.stride[i];
    return alike;
}

void test_views() {
    Floats v = values(24, 1);
    const Floats &constant = v;
    const std::uint64_t shape[3] = {2, 3, 4};
    const pith_view flat = pith_view_flat(v.data(), PITH_F32, 24);
    const pith_view dense = pith_view_dense(v.data(), PITH_F32, 3, shape);

    static_assert(std::is_same_v<decltype(pith::view(v)), pith::View>);
    static_assert(std::is_same_v<decltype(pith::view(constant)), pith::ConstView>);
    CHECK(equal(pith::view(v), flat) && equal(pith::view(constant), flat));
    CHECK(equal(pith::view(v, {2, 3, 4}), dense) && equal(pith::view(constant, {2, 3, 4}), dense));
    CHECK(equal(pith::view(v, 24), flat) && equal(pith::view(v, shape), dense));
    CHECK(equal(pith::view(v, std::vector<int>{2, 3, 4}), dense));
    CHECK(equal(pith::view(pith::Span<float>(v)), flat));
    CHECK(equal(pith::view(pith::Span<const float>(v), {2, 3, 4}), dense));
    CHECK(pith::view(v, {2, 3, 4}).count() == 24);

    static_assert(std::is_same_v<decltype(pith::view(v.data(), 24)), pith::View>);
    static_assert(std::is_same_v<decltype(pith::view(constant.data(), 24)), pith::ConstView>);
    CHECK(equal(pith::view(v.data(), {2, 3, 4}), dense));
    const void *const untyped = v.data();
    CHECK(equal(pith::view(untyped, PITH_F32, {2, 3, 4}), dense));
    pith_view turned = dense;
    turned.stride[0] = 4;
    turned.stride[1] = -8;
    CHECK(equal(pith::view(v.data(), {2, 3, 4}, {4, -8, 1}), turned));
    CHECK(equal(pith::view(untyped, PITH_F32, {2, 3, 4}, {4, -8, 1}), turned));
    CHECK(pith::view(v.data(), {}).ndim == 0); // one element

    float array[6] = {};
    std::array<double, 6> doubles{};
    std::vector<std::uint16_t> halves(6);
    std::vector<bfloat16> own(6);
    std::vector<unsigned char> raw(24);
    CHECK(equal(pith::view(array), pith_view_flat(array, PITH_F32, 6)));
    CHECK(pith::view(array, {2, 3}).ndim == 2);
    CHECK(equal(pith::view(doubles), pith_view_flat(doubles.data(), PITH_F64, 6)));
    CHECK(equal(pith::view(halves), pith_view_flat(halves.data(), PITH_U16, 6)));
    CHECK(equal(pith::view(halves, PITH_BF16), pith_view_flat(halves.data(), PITH_BF16, 6)));
    CHECK(pith::view(halves, PITH_F16, {3, 2}).dtype == PITH_F16);
    CHECK(equal(pith::view(own), pith_view_flat(own.data(), PITH_BF16, 6)));
    CHECK(equal(pith::view(raw, PITH_F32), pith_view_flat(raw.data(), PITH_F32, 6)));
    CHECK(pith::ConstView().dtype == PITH_NONE && pith::View().dtype == PITH_NONE);
    CHECK(equal(pith::View(dense), dense) && equal(pith::ConstView(dense), dense));

    thrown(PITH_ERR_SHAPE, [&] { (void)pith::view(v, {2, 3}); });
    thrown(PITH_ERR_SHAPE, [&] { (void)pith::view(v, 25); });
    thrown(PITH_ERR_SHAPE, [&] { (void)pith::view(raw, PITH_F32, {24}); });
    thrown(PITH_ERR_SHAPE, [&] { (void)pith::view(v, PITH_NONE); });
    thrown(PITH_ERR_SHAPE, [&] { (void)pith::view(v, pith::Shape(std::vector<int>(9, 1))); });
    thrown(PITH_ERR_SHAPE, [&] { (void)pith::view(v.data(), {2, 3, 4}, {12, 4}); });
    CHECK(pith::Shape(std::vector<int>(8, 1)).ndim() == 8);

    const pith::Span<const float> span(v);
    CHECK(span.size() == 24 && !span.empty() && span[5] == v[5] && span.end() - span.begin() == 24);
    CHECK(pith::Span<float>().empty());
}

void test_structs() {
    const auto env = pith::sized<pith_env>();
    const auto item = pith::sized<pith_item>();
    CHECK(env.size == sizeof env && env.threads == 0 && !env.alloc);
    CHECK(item.size == sizeof item && !item.stream);
    const pith_layout l = pith::layout(PITH_F16, {5, 7}, PITH_BF16);
    CHECK(l.size == sizeof l && l.dtype == PITH_F16 && l.base_dtype == PITH_BF16 && l.ndim == 2);
    CHECK(l.shape[0] == 5 && l.shape[1] == 7 && l.shape[2] == 0 && l.slots == 0 && l.flags == 0);
    CHECK(pith::layout(PITH_F32, 9).base_dtype == PITH_NONE);
}

// ---- Errors -----------------------------------------------------------------------------------

void test_errors() {
    auto error = pith::sized<pith_error>();
    const pith_plan *none = nullptr;
    const pith_layout layout = pith::layout(PITH_F32, 16);
    CHECK(pith_plan_create(&none, "wdiff:bits=99", &layout, nullptr, &error) == PITH_ERR_SPEC);
    const pith::Error spec =
        thrown(PITH_ERR_SPEC, [&] { pith::Plan("wdiff:bits=99", layout, nullptr); });
    CHECK(std::string(spec.text()) == error.text && *spec.text() && spec.offset() == error.offset);
    CHECK(spec.item() == 0);
    CHECK(spec.what() == std::string("PITH_ERR_SPEC: ") + error.text);
    const pith::Error copy = spec;
    CHECK(std::string(copy.what()) == spec.what() && copy.what() != spec.what());

    pith::Plan plan;
    auto again = pith::sized<pith_error>();
    CHECK(pith::Plan::try_create(plan, "wdiff:bits=99", layout, nullptr, &again) == PITH_ERR_SPEC);
    CHECK(!plan && std::string(again.text) == error.text && again.offset == error.offset);
    CHECK(pith::Plan::try_create(plan, nullptr, layout) == PITH_ERR_ARG);

    // Without a text of its own an error has that of its status; a short one is not read past.
    CHECK(std::string(pith::Error(PITH_ERR_BASE).text()) == pith_status_text(PITH_ERR_BASE));
    CHECK(std::string(pith::Error(PITH_ERR_BASE, &(again = pith::sized<pith_error>())).text()) ==
          pith_status_text(PITH_ERR_BASE));
    again.offset = 7;
    again.item = 8;
    again.size = offsetof(pith_error, item);
    CHECK(pith::Error(PITH_ERR_BASE, &again).offset() == 7);
    CHECK(pith::Error(PITH_ERR_BASE, &again).item() == 0);
    again.size = sizeof again;
    std::memset(again.text, 'x', sizeof again.text);
    CHECK(std::strlen(pith::Error(PITH_ERR_UNSUPPORTED, &again).text()) == PITH_ERROR_TEXT - 1);
    CHECK(std::strlen(pith::Error(PITH_ERR_UNSUPPORTED, &again).what()) ==
          PITH_ERROR_TEXT - 1 + std::strlen("PITH_ERR_UNSUPPORTED: "));

    pith::check(PITH_OK);
    pith::check(PITH_OK, &error);
    thrown(PITH_ERR_LIMIT, [] { pith::check(PITH_ERR_LIMIT); });
    CHECK(thrown(PITH_ERR_SPEC, [&] { pith::check(PITH_ERR_SPEC, &error); }).offset() ==
          error.offset);
}

// ---- Plans and works --------------------------------------------------------------------------

void *no_memory(void *, std::size_t, std::size_t) { return nullptr; }
void no_release(void *, void *, std::size_t) {}

void test_plans() {
    pith_layout layout = pith::layout(PITH_F32, 1000, PITH_F32);
    layout.slots = 3;
    const pith::Plan plan("wdiff:bits=4,key_every=5", layout);
    const pith_plan *twin = nullptr;
    CHECK_OK(pith_plan_create(&twin, "wdiff:bits=4,key_every=5", &layout, nullptr, nullptr));
    auto sizes = pith::sized<pith_sizes>();
    CHECK_OK(pith_plan_sizes(twin, &sizes));
    const pith_sizes of_plan = plan.sizes();
    CHECK(same(&of_plan, &sizes, offsetof(pith_sizes, fixed)) && of_plan.fixed == sizes.fixed);
    CHECK(plan.fingerprint() == pith_plan_fingerprint(twin));
    for (std::uint64_t i = 0; i < 3; i++) {
        std::uint64_t first = 0, count = 0;
        CHECK_OK(pith_plan_slot(twin, i, &first, &count));
        CHECK(plan.slot(i).first == first && plan.slot(i).count == count);
        CHECK(plan.frame_bytes(i) == pith_plan_frame_bytes(twin, i, 0));
        CHECK(plan.frame_bytes(i, true) == pith_plan_frame_bytes(twin, i, 1));
        CHECK(plan.frame_bytes(i, true) != plan.frame_bytes(i));
    }
    pith::Plan::Slot slot{};
    CHECK_OK(plan.try_slot(1, slot));
    CHECK(slot.first == 334 && slot.count == 334);
    CHECK(plan.try_slot(3, slot) == PITH_ERR_ARG);
    thrown(PITH_ERR_ARG, [&] { (void)plan.slot(3); });
    CHECK(plan.is_key(5) && !plan.is_key(6));
    char text[PITH_SPEC_MAX];
    CHECK_OK(pith_plan_spec(twin, text, sizeof text));
    CHECK(plan.spec() == text);
    CHECK(plan.layout().shape[0] == 1000 && plan.layout().base_dtype == PITH_F32);
    CHECK(plan.exempt().empty() && pith::Plan().exempt().empty());
    const pith_exempt gains{7, 9, PITH_EXEMPT_EXACT};
    auto with_gains = pith::layout(PITH_F32, {1000});
    with_gains.exempt = &gains;
    with_gains.exempt_count = 1;
    const std::vector<pith_exempt> exempt = pith::Plan("grad", with_gains).exempt();
    CHECK(exempt.size() == 1 && exempt[0].first == 7 && exempt[0].count == 9 &&
          exempt[0].how == PITH_EXEMPT_EXACT);
    pith_plan_destroy(twin);

    auto env = pith::sized<pith_env>();
    env.alloc = no_memory;
    env.release = no_release;
    thrown(PITH_ERR_MEMORY, [&] { pith::Plan("wdiff", layout, &env); });

    pith::Plan a("raw", pith::layout(PITH_F32, 10));
    const pith_plan *const kept = a.get();
    pith::Plan b(std::move(a));
    CHECK(!a && b && b.get() == kept);
    a = std::move(b);
    CHECK(a && !b && a.get() == kept && a.sizes().slots == 1);
    a = pith::Plan("raw", pith::layout(PITH_F32, 20)); // the first is destroyed
    CHECK(a.layout().shape[0] == 20);
    CHECK_OK(pith::Plan::try_create(a, "raw", pith::layout(PITH_F32, 30)));
    CHECK(a.layout().shape[0] == 30);
}

void test_works() {
    const pith::Plan small("raw", pith::layout(PITH_F32, 16));
    const pith::Plan large("wdiff:bits=4", pith::layout(PITH_F32, 100000, PITH_F32));
    auto env = pith::sized<pith_env>();
    env.threads = 2;
    env.run = [](void *, void (*job)(void *, std::size_t), void *arg, std::size_t count) {
        for (std::size_t i = 0; i < count; i++) job(arg, i);
        return 0;
    };
    pith::Work one(large), both({small.get(), large.get()}, &env);
    const std::vector<const pith_plan *> plans{small.get(), large.get()};
    pith::Work listed(plans, &env);
    CHECK(one && both && listed);

    const Floats now = values(100000, 2);
    Frame first;
    for (pith::Work *work : {&one, &both, &listed}) { // threads change no byte
        pith::Stream stream(large);
        const Frame frame = pith::encode(*work, stream, 0, pith::view(now));
        CHECK(first.empty() || first == frame);
        first = frame;
        CHECK(!*work->error().text);
    }

    pith::Work moved(std::move(one));
    CHECK(!one && moved);
    one = std::move(moved);
    CHECK(one && !moved);
    auto *self = &one;
    one = std::move(*self);
    CHECK(one);

    pith::Work none;
    auto error = pith::sized<pith_error>();
    env.threads = 100000;
    CHECK(pith::Work::try_create(none, small, &env, &error) != PITH_OK && !none);
    env.threads = 0;
    env.size = 3;
    CHECK(pith::Work::try_create(none, plans, &env, &error) == PITH_ERR_ARG && !none);
    CHECK(*error.text);
    CHECK(std::string(thrown(PITH_ERR_ARG, [&] { pith::Work(small, &env); }).text()) == error.text);
    CHECK(pith::Work::try_create(none, pith::Plan()) == PITH_ERR_ARG && !none);
    thrown(PITH_ERR_ARG, [&] { (void)pith::Work(pith::Plan()); });
    CHECK_OK(pith::Work::try_create(none, plans));
    CHECK(none);

    // A work that is too small for a plan says so; check makes an exception of any call's status.
    pith::Work little(small);
    pith::Stream stream(large);
    const pith::Error space =
        thrown(PITH_ERR_SPACE, [&] { (void)pith::encode(little, stream, 0, pith::view(now)); });
    CHECK(std::string(space.text()) == little.error().text && *little.error().text);
    const pith::Error reset = thrown(PITH_ERR_ARG, [&] {
        little.check(pith_stream_set_step(little.get(), stream.get(), 1, 0)); // there is no slot 1
    });
    CHECK(std::string(reset.text()) == little.error().text);
    little.check(pith_stream_reset(little.get(), stream.get()));
}

// ---- Streams with a base ----------------------------------------------------------------------

void test_wdiff() {
    pith_layout layout = pith::layout(PITH_F32, 5000, PITH_BF16);
    layout.slots = 2;
    layout.flags = PITH_LAYOUT_CHECKSUMS;
    const pith::Plan plan("wdiff:bits=4,round=stochastic", layout);
    const Floats start = values(5000, 3);
    auto options = pith::sized<pith_stream_options>();
    options.seed = 11;
    options.rng_stream = 5;
    options.step = 3;

    pith::Work work(plan);
    pith::Stream sender(plan, &options), receiver(plan);
    End twin(plan.get(), &options);
    CHECK(sender.plan() == plan.get() && sender.step(1) == 3 && receiver.step(1) == 0);
    CHECK(pith_stream_step(twin.stream, 1) == 3);
    sender.set_base(work, pith::view(start), 7);
    receiver.set_base(work, pith::view(start), 7);
    const pith_view in_start = pith_view_flat(start.data(), PITH_F32, 5000);
    CHECK_OK(pith_stream_set_base(twin.work, twin.stream, &in_start, 7));

    Floats now = start, back(5000), base(5000);
    std::vector<Frame> lost;
    for (unsigned step = 7; step < 10; step++) {
        const Floats change = values(5000, step);
        for (std::size_t i = 0; i < 5000; i++) now[i] += change[i] / 100;
        const pith_view in = pith_view_flat(now.data(), PITH_F32, 5000);
        for (std::uint64_t slot = 0; slot < 2; slot++) {
            CHECK(sender.step(slot) == step);
            const Frame frame = pith::encode(work, sender, slot, pith::view(now));
            CHECK(frame == twin.encode(in, slot));
            CHECK(frame.size() == plan.frame_bytes(slot));
            pith::decode(work, receiver, slot, frame, pith::view(back));
            CHECK(sender.base_hash(slot) == receiver.base_hash(slot));
            CHECK(sender.base_hash(slot) == pith_stream_base_hash(twin.stream, slot));
            lost.push_back(frame);
        }
    }
    sender.get_base(work, 0, pith::view(base));
    CHECK(same(base, back));
    const pith_view piece = pith_view_flat(base.data(), PITH_F32, 2500);
    CHECK_OK(pith_stream_get_base(twin.work, twin.stream, 1, &piece));
    CHECK(same(base.data(), back.data() + 2500, 10000));
    CHECK_OK(sender.try_get_base(work, 0, pith::view(base)));
    sender.verify(work);
    CHECK_OK(sender.try_verify(work));
    CHECK(sender.stats().frames == 6 && receiver.stats().frames == 6);

    // Into the caller's memory; a frame in a larger buffer; only the base.
    std::vector<unsigned char> buffer(20000);
    std::size_t length = pith::encode(work, sender, 0, pith::view(now), buffer);
    CHECK(length == plan.frame_bytes(0));
    pith::decode(work, receiver, 0, buffer);
    CHECK(receiver.step(0) == 11 && receiver.base_hash(0) == sender.base_hash(0));
    CHECK_OK(pith::try_encode(work, sender, 1, pith::view(now), buffer, length));
    CHECK_OK(pith::try_decode(work, receiver, 1, pith::ConstBytes(buffer.data(), length)));
    std::array<std::byte, 8> tiny{};
    CHECK(pith::try_encode(work, sender, 0, pith::view(now), tiny, length) == PITH_ERR_SPACE);
    CHECK(length == 0 && sender.step(0) == 11);
    thrown(PITH_ERR_SPACE, [&] { pith::encode(work, sender, 0, pith::view(now), tiny); });

    // An old frame; what the exception says is what the work does.
    const pith::Error old =
        thrown(PITH_ERR_STEP, [&] { pith::decode(work, receiver, 0, lost[0], pith::view(back)); });
    CHECK(std::string(old.text()) == work.error().text && old.offset() == work.error().offset);
    CHECK(pith::try_decode(work, receiver, 0, lost[0]) == PITH_ERR_STEP);
    thrown(PITH_ERR_TRUNCATED, [&] {
        pith::decode(work, receiver, 0, pith::ConstBytes(lost[0].data(), 10), pith::view(back));
    });
    thrown(PITH_ERR_ARG, [&] { (void)pith::encode(work, sender, 2, pith::view(now)); });
    thrown(PITH_ERR_SHAPE,
           [&] { (void)pith::encode(work, sender, 0, pith::view(now.data(), 17)); });

    // A key frame mends a stream that is behind.
    pith::Stream late(plan);
    const Frame key = pith::encode(work, sender, 0, pith::view(now), PITH_KEY_FRAME);
    CHECK(key.size() == plan.frame_bytes(0, true) && pith::inspect(key).is_key);
    pith::decode(work, late, 0, key, pith::view(back));
    CHECK(late.base_hash(0) == sender.base_hash(0) && late.step(0) == sender.step(0));
    pith::decode(work, receiver, 0, key);

    // Steps, random bits, reset.
    sender.set_step(work, 1, 77);
    CHECK(sender.step(1) == 77 && sender.step(0) == 12);
    CHECK_OK(sender.try_set_step(work, 1, 78));
    thrown(PITH_ERR_ARG, [&] { sender.set_step(work, 2, 0); });
    sender.set_random(work, options);
    options.rank = 3;
    thrown(PITH_ERR_ARG, [&] { sender.set_random(work, options); });
    thrown(PITH_ERR_ARG, [&] { pith::Stream(plan, &options); });
    options.rank = 0;
    CHECK_OK(sender.try_set_random(work, options));
    CHECK(sender.try_rollback(work, 77) == PITH_ERR_STATE);
    thrown(PITH_ERR_STATE, [&] { sender.rollback(work, 77); });
    late.reset(work);
    CHECK(late.step(0) == 0 && late.base_hash(0) == pith::Stream(plan).base_hash(0));
    CHECK_OK(late.try_reset(work));
    late.unlock(); // no call is under way: nothing changes
    CHECK(late.step(0) == 0);
}

void test_external_base() {
    pith_layout layout = pith::layout(PITH_F32, {10, 100}, PITH_BF16);
    layout.flags = PITH_LAYOUT_EXTERNAL_BASE;
    const pith::Plan plan("wdiff:bits=4", layout);
    pith::Work work(plan);
    pith::Stream stream(plan);
    const Floats now = values(1000, 4);
    std::vector<std::uint16_t> base(1000), twin_base(1000);
    std::size_t length = 0;
    Frame output(10000);
    CHECK(pith::try_encode(work, stream, 0, pith::view(now, {10, 100}), output, length) ==
          PITH_ERR_STATE); // none is bound
    stream.bind_base(work, pith::view(base, PITH_BF16), 4);
    CHECK(stream.step(0) == 4);
    CHECK_OK(stream.try_bind_base(work, pith::view(base, PITH_BF16, {10, 1, 100}), 5));
    CHECK(stream.step(0) == 5);
    thrown(PITH_ERR_DTYPE, [&] { stream.bind_base(work, pith::view(base, PITH_F16), 0); });
    CHECK(stream.try_bind_base(work, pith::view(base), 0) == PITH_ERR_DTYPE);
    CHECK(stream.try_bind_base(work, pith::view(base.data(), PITH_BF16, 999), 0) == PITH_ERR_SHAPE);
    CHECK(stream.try_bind_base(work, pith::view(base.data(), PITH_BF16, {500, 2}, {1, 500}), 0) ==
          PITH_ERR_SHAPE);
    CHECK(stream.step(0) == 5);

    End twin(plan.get());
    CHECK_OK(pith_stream_bind_base(twin.work, twin.stream, twin_base.data(), 5));
    const std::uint64_t shape[2] = {10, 100};
    CHECK(pith::encode(work, stream, 0, pith::view(now, {10, 100})) ==
          twin.encode(pith_view_dense(now.data(), PITH_F32, 2, shape)));
    CHECK(base == twin_base && base != std::vector<std::uint16_t>(1000));
    base[0] ^= 1;
    CHECK(stream.try_verify(work) == PITH_ERR_BASE);
    thrown(PITH_ERR_BASE, [&] { stream.verify(work); });
    thrown(PITH_ERR_BASE, [&] { (void)pith::encode(work, stream, 0, pith::view(now, {10, 100})); });

    const pith::Plan owner("wdiff:bits=4", pith::layout(PITH_F32, {10, 100}, PITH_BF16));
    pith::Stream inside(owner);
    thrown(PITH_ERR_STATE, [&] { inside.bind_base(work, pith::view(base, PITH_BF16), 0); });
}

void test_save() {
    const pith::Plan plan("wdiff:bits=3", pith::layout(PITH_F32, 700, PITH_F32));
    pith::Work work(plan);
    pith::Stream a(plan), b(plan);
    const Floats now = values(700, 5), next = values(700, 6);
    (void)pith::encode(work, a, 0, pith::view(now));
    const Frame saved = a.save(work);
    Frame twin(saved.size());
    std::size_t written = 0;
    CHECK_OK(pith_stream_save(work.get(), a.get(), twin.data(), twin.size(), &written));
    CHECK(written == saved.size() && twin == saved && saved.size() <= plan.sizes().save_bytes);
    CHECK_OK(a.try_save(work, twin, written));
    CHECK(written == saved.size());
    CHECK(a.try_save(work, pith::Bytes(twin.data(), 5), written) == PITH_ERR_SPACE);
    b.load(work, saved);
    CHECK(b.step(0) == 1 && b.base_hash(0) == a.base_hash(0));
    CHECK(pith::encode(work, a, 0, pith::view(next)) == pith::encode(work, b, 0, pith::view(next)));
    const std::uint64_t before = b.base_hash(0);
    Frame damaged = saved;
    damaged.back() ^= std::byte{1};
    thrown(PITH_ERR_CHECKSUM, [&] { b.load(work, damaged); });
    CHECK(b.try_load(work, damaged) == PITH_ERR_CHECKSUM && b.base_hash(0) == before);
    CHECK(b.try_load(work, pith::ConstBytes()) != PITH_OK);
}

// ---- Moves and empty handles ------------------------------------------------------------------

void test_moves() {
    const pith::Plan plan("grad:bits=4", pith::layout(PITH_F32, 4096));
    pith::Work work(plan);
    pith::Stream a(plan);
    const Floats v = values(4096, 7);
    Floats back(4096), other(4096);
    const Frame frame = pith::encode(work, a, 0, pith::view(v));
    pith_stream *const kept = a.get();
    pith::Stream b(std::move(a));
    CHECK(!a && b && b.get() == kept && b.step(0) == 1);
    a = std::move(b);
    CHECK(a && !b && a.get() == kept);
    auto *self = &a;
    a = std::move(*self);
    CHECK(a.get() == kept);
    pith::decode(work, a, 0, frame, pith::view(back));
    a = pith::Stream(plan); // the memory of the first is freed, that of the second is used
    pith::decode(work, a, 0, frame, pith::view(other));
    CHECK(same(back, other));
    std::vector<pith::Stream> many;
    for (int i = 0; i < 20; i++) many.emplace_back(plan);
    for (pith::Stream &s : many) CHECK(pith::encode(work, s, 0, pith::view(v)) == frame);

    // Empty handles are refused, as the NULL that they hold.
    pith::Work nothing;
    std::size_t length = 9;
    Frame output(10000);
    CHECK(pith::try_encode(work, b, 0, pith::view(v), output, length) == PITH_ERR_ARG);
    CHECK(pith::try_encode(nothing, a, 0, pith::view(v), output, length) == PITH_ERR_ARG);
    thrown(PITH_ERR_ARG, [&] { pith::encode(nothing, a, 0, pith::view(v), output); });
    thrown(PITH_ERR_ARG, [&] { (void)pith::encode(work, b, 0, pith::view(v)); });
    thrown(PITH_ERR_ARG, [&] { pith::decode(work, b, 0, frame, pith::view(back)); });
    CHECK(pith::try_decode(nothing, a, 0, frame, pith::view(back)) == PITH_ERR_ARG);
    thrown(PITH_ERR_ARG, [&] { b.set_base(work, pith::view(v), 0); });
    thrown(PITH_ERR_ARG, [&] { b.bind_base(work, pith::view(back), 0); });
    thrown(PITH_ERR_ARG, [&] { (void)b.save(work); });
    thrown(PITH_ERR_ARG, [&] { b.load(work, frame); });
    thrown(PITH_ERR_ARG, [&] { a.reset(nothing); });
    thrown(PITH_ERR_ARG, [&] { (void)pith::Stream(pith::Plan()); });
    thrown(PITH_ERR_ARG, [&] { (void)pith::Cache(pith::Plan()); });
    thrown(PITH_ERR_ARG, [&] { (void)pith::Plan().slot(0); });
    thrown(PITH_ERR_ARG, [&] { (void)pith::Plan().spec(); });
}

// ---- Lists ------------------------------------------------------------------------------------

void test_lists() {
    pith_layout cut = pith::layout(PITH_F32, 3000);
    cut.slots = 3;
    const pith::Plan grad("grad:bits=8", cut);
    const pith::Plan weights("wdiff:bits=4", pith::layout(PITH_F32, 500, PITH_F32));
    const pith::Plan exact("raw", pith::layout(PITH_I32, 10));
    pith::Work work({grad.get(), weights.get(), exact.get()});
    pith::Stream gradients(grad), diff(weights), diff_end(weights), raw(exact);
    const Floats g = values(3000, 8), w = values(500, 9);
    const std::vector<int> whole{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};

    std::vector<Frame> frames(5, Frame(20000));
    std::vector<pith_item> items;
    for (std::uint64_t i = 0; i < 3; i++)
        items.push_back(pith::encode_item(gradients, i, pith::view(g), frames[i]));
    items.push_back(pith::encode_item(diff, 0, pith::view(w), frames[3]));
    items.push_back(pith::encode_item(raw, 0, pith::view(whole), frames[4]));
    pith::encode(work, items);
    End grad_twin(grad.get()), diff_twin(weights.get());
    for (std::size_t i = 0; i < 5; i++) {
        CHECK(items[i].status == PITH_OK);
        frames[i].resize(items[i].length);
    }
    for (std::uint64_t i = 0; i < 3; i++) CHECK(frames[i] == grad_twin.encode(pith::view(g), i));
    CHECK(frames[3] == diff_twin.encode(pith::view(w)));

    Floats g_back(3000), w_back(500);
    std::vector<int> whole_back(10);
    std::array<pith_item, 5> reads{};
    for (std::uint64_t i = 0; i < 3; i++)
        reads[i] = pith::decode_item(gradients, i, frames[i], pith::view(g_back));
    reads[3] = pith::decode_item(diff_end, 0, frames[3], pith::view(w_back));
    reads[4] = pith::decode_item(raw, 0, frames[4], pith::view(whole_back));
    pith::decode(work, reads);
    CHECK(whole_back == whole && diff_end.base_hash(0) == diff.base_hash(0));
    for (std::size_t i = 0; i < 3000; i++) CHECK(std::fabs(g[i] - g_back[i]) < 0.1f);

    // One item, and one of a list that fails: the others are decoded, and its number is told.
    Floats again(3000);
    pith_item single = pith::decode_item(gradients, 1, frames[1], pith::view(again));
    pith::decode(work, single);
    CHECK_OK(pith::try_decode(work, single));
    CHECK(same(again.data() + 1000, g_back.data() + 1000, 4000));
    std::vector<pith_item> mixed{pith::decode_item(gradients, 0, frames[0], pith::view(again)),
                                 pith::decode_item(raw, 0, frames[0], pith::view(whole_back)),
                                 pith::decode_item(gradients, 2, frames[2], pith::view(again))};
    const pith::Error error = thrown(PITH_ERR_MISMATCH, [&] { pith::decode(work, mixed); });
    CHECK(error.item() == 1 && std::string(error.text()) == work.error().text);
    CHECK(mixed[0].status == PITH_OK && mixed[1].status == PITH_ERR_MISMATCH);
    CHECK(mixed[2].status == PITH_OK && same(again, g_back));
    CHECK(pith::try_decode(work, mixed) == PITH_ERR_MISMATCH);
    mixed[2] = mixed[0]; // a slot that comes twice
    thrown(PITH_ERR_ARG, [&] { pith::decode(work, mixed); });
    pith::encode(work, pith::Span<pith_item>()); // an empty list

    // PITH_ADD, and a key frame for one item.
    pith::decode(work, single, PITH_ADD);
    CHECK(again[1500] == g_back[1500] + g_back[1500]);
    pith::decode(work, gradients, 1, frames[1], pith::view(again), PITH_ADD);
    CHECK_OK(pith::try_decode(work, gradients, 1, frames[1], pith::view(again), PITH_ADD));
    frames[3].resize(20000);
    pith_item key = pith::encode_item(diff, 0, pith::view(w), frames[3]);
    pith::encode(work, key, PITH_KEY_FRAME);
    CHECK(pith::inspect(pith::ConstBytes(frames[3].data(), key.length)).is_key);
    CHECK_OK(pith::try_encode(work, key));
    thrown(PITH_ERR_UNSUPPORTED, [&] { pith::encode(work, items, PITH_KEY_FRAME); });
}

// ---- Sums -------------------------------------------------------------------------------------

void test_sums() {
    const pith::Plan hop("grad:preset=intra", pith::layout(PITH_F32, 2000));
    const pith::Plan next("grad:preset=inter", pith::layout(PITH_F32, 2000));
    pith::Work work({hop.get(), next.get()});
    pith::Stream stream(hop), out(next);
    End twin(hop.get()), out_twin(next.get());
    std::vector<Frame> ranks;
    for (unsigned r = 0; r < 4; r++)
        ranks.push_back(
            pith::encode(work, stream, 0, pith::view(values(2000, 10 + r).data(), 2000)));
    const pith::Frames frames(ranks);
    CHECK(frames.size() == 4 && frames.lengths()[2] == ranks[2].size());
    CHECK(frames.data()[3] == ranks[3].data());

    Floats sum(2000), wanted(2000), listed(2000);
    pith::reduce(work, stream, 0, frames, pith::view(sum), 0.25f);
    pith_sum by_hand{};
    by_hand.size = sizeof by_hand;
    by_hand.stream = twin.stream;
    by_hand.frames = frames.data();
    by_hand.lengths = frames.lengths();
    by_hand.count = 4;
    by_hand.scale = 0.25f;
    by_hand.view = pith_view_flat(wanted.data(), PITH_F32, 2000);
    pith::Work twin_work({hop.get(), next.get()});
    CHECK_OK(pith_reduce(twin_work.get(), &by_hand, 1));
    CHECK(same(sum, wanted));
    CHECK_OK(pith::try_reduce(work, stream, 0, frames, pith::view(listed), 0.25f));
    CHECK(same(sum, listed));

    // One sum, a list, and a list of which one fails.
    pith_sum one = pith::sum_of(stream, 0, frames, pith::view(listed));
    pith::reduce(work, one);
    CHECK_OK(pith::try_reduce(work, one));
    CHECK(one.scale == 1 && listed[9] == 4 * sum[9]);
    pith::Stream second(hop);
    pith::Frames half;
    half.push_back(ranks[0]);
    half.push_back(ranks[1]);
    Floats of_two(2000);
    std::vector<pith_sum> sums{pith::sum_of(stream, 0, frames, pith::view(listed), 0.25f),
                               pith::sum_of(second, 0, half, pith::view(of_two))};
    pith::reduce(work, sums);
    CHECK(same(listed, sum) && !same(of_two, sum));
    CHECK(sums[0].status == PITH_OK && sums[1].status == PITH_OK);
    Frame foreign = pith::compress("raw", pith::view(sum));
    half.push_back(foreign);
    sums[1] = pith::sum_of(second, 0, half, pith::view(of_two));
    CHECK(pith::try_reduce(work, sums) == PITH_ERR_MISMATCH && sums[0].status == PITH_OK);
    const pith::Error error = thrown(PITH_ERR_MISMATCH, [&] { pith::reduce(work, sums); });
    CHECK(error.item() == 1 && std::string(error.text()) == work.error().text);
    half.clear();
    CHECK(half.size() == 0);
    const pith::Frames of_list{ranks[0], ranks[1]};
    CHECK(of_list.size() == 2 && of_list.data()[1] == ranks[1].data());

    // The second hop.
    Frame frame(next.frame_bytes(0)), frame_wanted(frame.size());
    std::size_t length = pith::reduce_encode(work, stream, 0, frames, 0.25f, out, 0, frame);
    pith_item item{};
    item.size = sizeof item;
    item.stream = out_twin.stream;
    item.frame = frame_wanted.data();
    item.capacity = frame_wanted.size();
    CHECK_OK(pith_reduce_encode(twin_work.get(), &by_hand, &item, 1));
    CHECK(length == item.length && frame == frame_wanted && out.step(0) == 1);
    CHECK_OK(pith::try_reduce_encode(work, stream, 0, frames, 0.25f, out, 0, frame, length));
    CHECK(length == frame.size());
    pith_item by_item = pith::encode_item(out, 0, pith::ConstView(), frame);
    pith::reduce_encode(work, pith::sum_of(stream, 0, frames), by_item);
    CHECK_OK(pith::try_reduce_encode(work, pith::sum_of(stream, 0, frames), by_item));
    CHECK(by_item.length == frame.size() && by_item.status == PITH_OK);
    std::vector<pith_item> items{by_item};
    const std::vector<pith_sum> same_sums{pith::sum_of(stream, 0, frames)};
    pith::reduce_encode(work, same_sums, items);
    CHECK_OK(pith::try_reduce_encode(work, same_sums, items));
    items.push_back(by_item);
    CHECK(pith::try_reduce_encode(work, same_sums, items) == PITH_ERR_ARG);
    thrown(PITH_ERR_ARG, [&] { pith::reduce_encode(work, same_sums, items); });
    std::array<std::byte, 9> tiny{};
    CHECK(pith::try_reduce_encode(work, stream, 0, frames, 1, out, 0, tiny, length) ==
          PITH_ERR_SPACE);
    thrown(PITH_ERR_SPACE, [&] { pith::reduce_encode(work, stream, 0, frames, 1, out, 0, tiny); });
    CHECK(length == 0);
}

// ---- Error feedback and bounds ----------------------------------------------------------------

void test_residuals() {
    const pith::Plan plan("grad:bits=4,ef=full", pith::layout(PITH_F32, 1000));
    pith::Work work(plan);
    pith::Stream stream(plan);
    End twin(plan.get());
    const Floats v = values(1000, 20);
    Floats kept(1000), wanted(1000);
    (void)pith::encode(work, stream, 0, pith::view(v));
    (void)twin.encode(pith::view(v));
    stream.get_residual(work, 0, pith::view(kept));
    const pith_view to = pith_view_flat(wanted.data(), PITH_F32, 1000);
    CHECK_OK(pith_stream_get_residual(twin.work, twin.stream, 0, &to));
    CHECK(same(kept, wanted) && kept[0] != 0);
    stream.rollback(work, 0);
    CHECK(stream.step(0) == 0);
    CHECK_OK(stream.try_rollback(work, 0));
    stream.set_residual(work, 0, pith::view(kept));
    CHECK_OK(stream.try_set_residual(work, 0, pith::view(kept)));
    CHECK_OK(stream.try_get_residual(work, 500, pith::view(wanted.data(), 500)));
    kept[3] = INFINITY;
    thrown(PITH_ERR_ARG, [&] { stream.set_residual(work, 0, pith::view(kept)); });
    const pith::Plan plain("grad:bits=4", pith::layout(PITH_F32, 1000));
    pith::Stream other(plain);
    thrown(PITH_ERR_STATE, [&] { other.get_residual(work, 0, pith::view(kept)); });
}

void test_bounds() {
    const pith::Plan plan("act:abs=0.1", pith::layout(PITH_F32, 1000));
    pith::Work work(plan);
    pith::Stream stream(plan);
    End twin(plan.get());
    Floats v = values(1000, 21);
    for (std::size_t i = 0; i < 1000; i += 4) v[i] = 0;
    CHECK(stream.bound(0) == 0 && stream.nonzero(0) == 1);
    stream.set_bound(work, 0, 0.01);
    CHECK_OK(stream.try_set_bound(work, 0, 0.02));
    CHECK(stream.bound(0) == 0.02);
    const Frame frame = pith::encode(work, stream, 0, pith::view(v));
    CHECK_OK(pith_stream_set_bound(twin.work, twin.stream, 0, 0.02));
    CHECK(frame == twin.encode(pith::view(v)));
    CHECK(stream.nonzero(0) == pith_stream_nonzero(twin.stream, 0) && stream.nonzero(0) < 0.8);
    CHECK(pith::inspect(frame).bound <= 0.02);
    stream.scale_bound(work, 0, 2);
    CHECK_OK(stream.try_scale_bound(work, 0, 2));
    CHECK(stream.bound(0) == 0);
    auto budget = pith::sized<pith_budget>();
    budget.momentum = 0.01;
    budget.gradient = 0.001;
    budget.samples = 64;
    const double adapted = stream.adapt(work, 0, budget);
    double wanted = 0, again = 0;
    CHECK_OK(pith_stream_adapt(twin.work, twin.stream, 0, &budget, &wanted));
    CHECK_OK(stream.try_adapt(work, 0, budget, again));
    CHECK(adapted == wanted && adapted > 0 && stream.bound(0) == adapted && again > 0);
    thrown(PITH_ERR_ARG, [&] { stream.set_bound(work, 0, -1); });
    thrown(PITH_ERR_ARG, [&] { stream.scale_bound(work, 0, 0); });
    budget.share = -1;
    thrown(PITH_ERR_ARG, [&] { (void)stream.adapt(work, 0, budget); });
}

// ---- Sets of elements -------------------------------------------------------------------------

void test_sets() {
    const char *const spec = "topk:k=20,control=exact,ef=full,clear=call,block=256";
    pith_layout cut = pith::layout(PITH_F32, 2000);
    cut.slots = 2;
    const pith::Plan plan(spec, cut);
    pith::Work work(plan);
    pith::Stream a(plan), b(plan);
    End twin(plan.get());
    const Floats x = values(2000, 60), y = values(2000, 61);
    CHECK(!a.sparse_state(1).holds && a.sparse_state(1).k == 20);
    pith_sparse_state state{};
    CHECK(a.try_sparse_state(2, state) == PITH_ERR_ARG && state.size == 0);
    thrown(PITH_ERR_ARG, [&] { (void)a.sparse_state(2); });
    thrown(PITH_ERR_STATE, [&] { a.report(work, 1, 5); });
    CHECK(a.try_report(work, 1, 5) == PITH_ERR_STATE);

    // A request, and what the C calls choose with it.
    pith_sparse_request request = pith::sized<pith_sparse_request>();
    request.first = 100;
    request.count = 500;
    request.k = 30;
    a.set_request(work, 1, &request);
    CHECK_OK(pith_sparse_set_request(twin.work, twin.stream, 1, &request));
    const Frame first = pith::encode(work, a, 1, pith::view(x));
    CHECK(first == twin.encode(pith::view(x), 1));
    CHECK(a.sparse_state(1).sent == 30 && pith::inspect(first).sent == 30);
    a.report(work, 1, 50);
    CHECK_OK(a.try_report(work, 1, 50));
    request.count = 901;
    thrown(PITH_ERR_ARG, [&] { a.set_request(work, 1, &request); });
    CHECK(a.try_set_request(work, 1, &request) == PITH_ERR_ARG);
    CHECK_OK(a.try_set_request(work, 1, nullptr));

    // The union of two choices, and where both agree.
    const Frame second = pith::encode(work, b, 1, pith::view(y));
    CHECK(pith::inspect(second).sent == 20);
    const pith::Frames both{first, second};
    a.hold(work, 1, both, PITH_SET_INTERSECTION);
    const std::size_t common = static_cast<std::size_t>(a.sparse_state(1).held);
    CHECK_OK(a.try_hold(work, 1, both));
    const std::size_t held = static_cast<std::size_t>(a.sparse_state(1).held);
    CHECK(held == 50 - common && a.sparse_state(1).holds);
    CHECK_OK(pith_sparse_hold(twin.work, twin.stream, 1, both.data(), both.lengths(), 2,
                              PITH_SET_UNION));
    thrown(PITH_ERR_ARG, [&] { a.hold(work, 1, pith::Frames()); });

    // Values there: of the tensor, and of the residual, which after one step is the same.
    Floats got(held), wanted(held), of_residual(held);
    const pith_view from = pith::view(x), to = pith::view(wanted);
    CHECK_OK(pith_sparse_gather(twin.work, twin.stream, 1, &from, &to));
    a.gather(work, 1, pith::view(x), pith::view(got));
    CHECK(same(got, wanted));
    a.gather(work, 1, pith::view(of_residual));
    CHECK(same(of_residual, wanted));
    CHECK_OK(a.try_gather(work, 1, pith::view(x), pith::view(got)));
    CHECK_OK(a.try_gather(work, 1, pith::view(got)));
    thrown(PITH_ERR_SHAPE, [&] { a.gather(work, 1, pith::view(got.data(), held - 1)); });
    Floats sum(2000), whole(2000);
    a.scatter(work, 1, pith::view(got), 0.5f, pith::view(sum));
    CHECK_OK(a.try_scatter(work, 1, pith::view(got), 1.0f, pith::view(whole)));
    std::size_t at = 0;
    for (std::size_t i = 0; i < 2000; i++) {
        CHECK(sum[i] == 0.5f * whole[i]);
        if (whole[i] != 0) CHECK(i >= 1000 && whole[i] == x[i] && whole[i] == got[at++]);
    }
    CHECK(at == held);
    a.clear(work, 1);
    a.gather(work, 1, pith::view(of_residual));
    CHECK(same(of_residual, Floats(held)));
    CHECK_OK(a.try_clear(work, 1));

    // The values of the set that both ends hold.
    b.hold(work, 1, both);
    const Frame reply = pith::encode(work, a, 1, pith::view(y), PITH_SAME_SET);
    CHECK(pith::inspect(reply).same_set && pith::inspect(reply).sent == held);
    pith::decode(work, b, 1, reply, pith::view(sum));

    // A set of the caller's.
    const std::vector<std::uint64_t> elements{7, 999, 0};
    a.hold_elements(work, 1, elements);
    CHECK(a.sparse_state(1).held == 3);
    CHECK_OK(a.try_hold_elements(work, 1, pith::Span<const std::uint64_t>(elements.data(), 1), 10));
    CHECK(a.sparse_state(1).held == 10);
    CHECK(pith::inspect(pith::encode(work, a, 1, pith::view(y), PITH_HELD_SET)).sent == 10);
    thrown(PITH_ERR_ARG, [&] { a.hold_elements(work, 1, elements, 2); });

    // No set; no codec that has one.
    thrown(PITH_ERR_STATE, [&] { a.gather(work, 0, pith::view(x), pith::view(got)); });
    thrown(PITH_ERR_STATE, [&] { a.scatter(work, 0, pith::view(got), 1.0f, pith::view(sum)); });
    thrown(PITH_ERR_STATE, [&] { a.clear(work, 0); });
    const pith::Plan other("grad", pith::layout(PITH_F32, 2000));
    pith::Work other_work(other);
    pith::Stream none(other);
    thrown(PITH_ERR_UNSUPPORTED, [&] { none.clear(other_work, 0); });
    thrown(PITH_ERR_UNSUPPORTED, [&] { (void)none.sparse_state(0); });
}

// ---- Another call -----------------------------------------------------------------------------

struct Nosy {
    pith::Stream *stream;
    const pith::Plan *plan;
    int busy;
};

void test_busy() {
    const pith::Plan plan("grad:bits=4", pith::layout(PITH_F32, 200000));
    pith::Stream stream(plan);
    Nosy nosy{&stream, &plan, 0};
    auto env = pith::sized<pith_env>();
    env.threads = 2;
    env.run_user = &nosy;
    env.run = [](void *user, void (*job)(void *, std::size_t), void *arg, std::size_t count) {
        Nosy &n = *static_cast<Nosy *>(user);
        pith::Work own(*n.plan);
        const pith::Error error = thrown(PITH_ERR_BUSY, [&] { n.stream->set_step(own, 0, 0); });
        CHECK(std::string(error.text()) == pith_status_text(PITH_ERR_BUSY));
        CHECK(n.stream->try_reset(own) == PITH_ERR_BUSY);
        n.busy++;
        for (std::size_t i = 0; i < count; i++) job(arg, i);
        return 0;
    };
    pith::Work work(plan, &env);
    const Floats v = values(200000, 22);
    const Frame frame = pith::encode(work, stream, 0, pith::view(v));
    CHECK(nosy.busy > 0 && stream.step(0) == 1);
    pith::Stream plain(plan);
    pith::Work serial(plan);
    CHECK(pith::encode(serial, plain, 0, pith::view(v)) == frame);
}

// ---- Caches -----------------------------------------------------------------------------------

void test_caches() {
    const pith_layout layout = pith::layout(PITH_F32, {256, 2, 32});
    const pith::Plan plan("kv:bits=4,group=32,window=16,page=32", layout);
    pith::Work work(plan);
    pith::Cache cache(plan, 200);
    std::vector<unsigned char> memory(static_cast<std::size_t>(pith_kv_bytes(plan.get(), 200)));
    pith_kv *twin = nullptr;
    CHECK_OK(pith_kv_init(plan.get(), memory.data(), memory.size(), &twin, nullptr));
    CHECK(cache.remaining() == pith_kv_remaining(twin) && cache.count() == 0);

    const Floats v = values(100 * 64, 30);
    cache.append(work, pith::view(v, {100, 2, 32}));
    const pith_view in = pith::view(v, {100, 2, 32});
    CHECK_OK(pith_kv_append(work.get(), &twin, &in, 1));
    CHECK(cache.count() == 100 && cache.finished() == pith_kv_finished(twin));
    CHECK(cache.remaining() == pith_kv_remaining(twin) && cache.finished() > 0);
    Floats back(50 * 32), wanted(50 * 32);
    cache.read(work, 25, 50, 1, 1, pith::view(back, {50, 1, 32}));
    const pith_view to = pith::view(wanted, {50, 1, 32});
    const pith_kv_range range = {twin, 25, 50, 1, 1, to};
    CHECK_OK(pith_kv_read(work.get(), &range, 1));
    CHECK(same(back, wanted));
    CHECK_OK(cache.try_read(work, 25, 50, 1, 1, pith::view(back, {50, 1, 32})));
    CHECK(cache.try_read(work, 60, 50, 1, 1, pith::view(back, {50, 1, 32})) == PITH_ERR_ARG);
    thrown(PITH_ERR_ARG, [&] { cache.read(work, 60, 50, 1, 1, pith::view(back, {50, 1, 32})); });

    cache.truncate(work, 90);
    CHECK_OK(pith_kv_truncate(work.get(), twin, 90));
    CHECK_OK(cache.try_truncate(work, 90));
    thrown(PITH_ERR_ARG, [&] { cache.truncate(work, 91); });
    const Frame saved = cache.save(work);
    Frame twin_saved(static_cast<std::size_t>(pith_kv_save_bytes(twin)));
    std::size_t written = 0;
    CHECK_OK(pith_kv_save(work.get(), twin, twin_saved.data(), twin_saved.size(), &written));
    CHECK(saved == twin_saved && written == saved.size() && cache.save_bytes() == saved.size());
    CHECK_OK(cache.try_save(work, twin_saved, written));
    CHECK(cache.try_save(work, pith::Bytes(twin_saved.data(), 3), written) == PITH_ERR_SPACE);

    pith::Cache loaded(plan);
    loaded.load(work, saved);
    CHECK(loaded.count() == 90 && loaded.save(work) == saved);
    CHECK_OK(loaded.try_load(work, saved));
    thrown(PITH_ERR_TRUNCATED, [&] { loaded.load(work, pith::ConstBytes(saved.data(), 70)); });
    CHECK(loaded.count() == 90);

    // Forks, and moving what they read from.
    pith::Cache child = cache.fork(work, 90, 16 + 10 + 32);
    pith::Cache copied = cache.fork(work, 90, 16 + 90 + 10 + 32, PITH_KV_COPY);
    pith::Cache moved(std::move(cache));
    CHECK(!cache && moved.count() == 90);
    CHECK(child.save(work) == saved && copied.save(work) == saved);
    child.append(work, pith::view(v.data(), {3, 2, 32}));
    pith::Cache grandchild = child.fork(work, 93, 16 + 10 + 32);
    CHECK(grandchild.count() == 93 && grandchild.save(work) == child.save(work));
    CHECK_OK(moved.try_fork(work, child, 80, 16 + 10 + 32));
    CHECK(child.count() == 80);
    thrown(PITH_ERR_ARG, [&] { (void)moved.fork(work, 91, 100); });
    thrown(PITH_ERR_SPACE, [&] { (void)moved.fork(work, 90, 1); });
    thrown(PITH_ERR_ARG, [&] { (void)cache.fork(work, 0, 100); });
    thrown(PITH_ERR_ARG, [&] { cache.append(work, pith::view(v.data(), {3, 2, 32})); });
    thrown(PITH_ERR_ARG, [&] { (void)cache.save(work); });
    cache = std::move(moved);
    CHECK(cache.count() == 90 && !moved);
    cache.unlock(); // no call is under way: nothing changes
    CHECK(cache.count() == 90 && cache.stats().poisoned == 0);

    // Lists.
    pith::Cache a(plan), b(plan), c(plan), d(plan);
    const std::vector<pith_kv *> caches{a.get(), b.get()};
    const std::vector<pith_view> views{pith::view(v.data(), {20, 2, 32}),
                                       pith::view(v.data() + 64, {30, 2, 32})};
    pith::append(work, caches, views);
    CHECK_OK(pith::try_append(work, caches, views));
    CHECK(a.count() == 40 && b.count() == 60);
    CHECK(pith::try_append(work, caches, pith::Span<const pith_view>(views.data(), 1)) ==
          PITH_ERR_ARG);
    thrown(PITH_ERR_ARG, [&] { pith::append(work, {}, views); });
    const std::array<pith_kv_tokens, 2> to_both{
        {{c.get(), v.data()}, {d.get(), v.data() + 64 * 20}}};
    pith::append_batch(work, pith::view(v.data(), {20, 2, 32}), to_both);
    CHECK_OK(pith::try_append_batch(work, pith::view(v.data(), {20, 2, 32}), to_both));
    Floats both(2 * 10 * 64);
    const std::array<pith_kv_range, 2> ranges{
        {{a.get(), 5, 10, 0, 2, pith::view(both.data(), {10, 2, 32})},
         {b.get(), 7, 10, 0, 2, pith::view(both.data() + 640, {10, 2, 32})}}};
    pith::read(work, ranges);
    CHECK_OK(pith::try_read(work, ranges));
    Floats second(10 * 64);
    b.read(work, 7, 10, 0, 2, pith::view(second, {10, 2, 32}));
    CHECK(std::equal(second.begin(), second.end(), both.begin() + 640));
    CHECK(c.count() == 40 && a.save(work) == c.save(work) && d.save(work) != c.save(work));
    const pith::Error full = thrown(PITH_ERR_SPACE, [&] {
        for (int i = 0; i < 20; i++) pith::append(work, caches, views);
    });
    CHECK(full.item() == 1 && std::string(full.text()) == work.error().text);
    CHECK_OK(c.try_append(work, pith::view(v.data(), {20, 2, 32})));

    // Plans without caches say why.
    auto error = pith::sized<pith_error>();
    pith::Cache none;
    const pith::Plan heads("kv:order=heads", pith::layout(PITH_F32, {2, 256, 32}));
    CHECK(pith::Cache::try_create(none, heads, 0, &error) == PITH_ERR_UNSUPPORTED && !none);
    CHECK(*error.text);
    CHECK(thrown(PITH_ERR_UNSUPPORTED, [&] { pith::Cache no(heads); }).text() ==
          std::string(error.text));
}

void test_layers() {
    const pith_layout layout = pith::layout(PITH_F32, {64, 1, 64});
    const pith::Plan plan(
        "kv:bits=4,group=64,page=32,axis=token,window=0,codebook=uniform,rotate_heads=off", layout);
    pith::Work work(plan);
    pith::Cache cache(plan);
    const Floats v = values(64 * 64, 31);
    Floats writer = values(64 * 64, 32), reader = writer;
    cache.append_delta(work, pith::view(v, {64, 1, 64}), pith::view(writer, {64, 1, 64}));
    cache.read_add(work, 0, 64, pith::view(reader, {64, 1, 64}));
    CHECK(same(writer, reader) && cache.count() == 64);
    CHECK(cache.try_append_delta(work, pith::view(v, {64, 1, 64}),
                                 pith::view(writer, {64, 1, 64})) == PITH_ERR_SPACE);
    CHECK_OK(cache.try_read_add(work, 0, 64, pith::view(reader, {64, 1, 64})));
}

// ---- One-shot calls ---------------------------------------------------------------------------

void test_one_shot() {
    const Floats base = values(3000, 40), now = values(3000, 41);
    Floats back(3000), wanted(3000);
    const pith::ConstView from = pith::view(base);
    pith_layout layout = pith::sized<pith_layout>();
    layout.flags = PITH_LAYOUT_CHECKSUMS;
    const Frame frame = pith::compress("wdiff:bits=4", pith::view(now), &from, &layout);
    Frame twin(static_cast<std::size_t>(
        pith::compress_bound("wdiff:bits=4", pith::view(now), &from, &layout)));
    std::size_t length = 0;
    const pith_view in = pith::view(now);
    CHECK_OK(pith_compress("wdiff:bits=4", &in, &from, &layout, nullptr, twin.data(), twin.size(),
                           &length, nullptr));
    twin.resize(length);
    CHECK(frame == twin);
    CHECK_OK(
        pith::try_compress("wdiff:bits=4", pith::view(now), &from, &layout, nullptr, twin, length));
    std::uint64_t bytes = 0, c_bytes = 0;
    CHECK_OK(pith::try_compress_bound("wdiff:bits=4", pith::view(now), &from, &layout, bytes));
    CHECK_OK(pith_compress_bound("wdiff:bits=4", &in, &from, &layout, &c_bytes, nullptr));
    CHECK(bytes == c_bytes);

    pith::decompress(frame, pith::view(back), &from);
    const pith_view out = pith::view(wanted);
    CHECK_OK(pith_decompress(frame.data(), frame.size(), &from, nullptr, &out, nullptr));
    CHECK(same(back, wanted));
    CHECK_OK(pith::try_decompress(frame, pith::view(back), &from));
    Floats part(70);
    pith::decode_range(frame, 100, pith::view(part), &from);
    CHECK(same(part.data(), back.data() + 100, 280));
    CHECK_OK(pith::try_decode_range(frame, 100, pith::view(part), &from));
    thrown(PITH_ERR_SHAPE, [&] { pith::decode_range(frame, 2999, pith::view(part), &from); });
    const pith::ConstView other = pith::view(now);
    const pith::Error wrong =
        thrown(PITH_ERR_BASE, [&] { pith::decompress(frame, pith::view(back), &other); });
    auto error = pith::sized<pith_error>();
    CHECK(pith::try_decompress(frame, pith::view(back), &other, nullptr, &error) == PITH_ERR_BASE);
    CHECK(std::string(wrong.text()) == error.text);
    auto env = pith::sized<pith_env>();
    env.max_output_bytes = 100;
    thrown(PITH_ERR_LIMIT, [&] { pith::decompress(frame, pith::view(back), &from, &env); });

    const pith_info info = pith::inspect(frame);
    auto c_info = pith::sized<pith_info>();
    CHECK_OK(pith_inspect(frame.data(), frame.size(), &c_info, nullptr));
    CHECK(info.count == 3000 && info.frame_bytes == frame.size() && info.has_checksums);
    CHECK(info.base_hash == c_info.base_hash && std::string(info.spec) == c_info.spec);
    CHECK(info.codec_name == c_info.codec_name && info.base_dtype == PITH_F32);
    pith_info cut{};
    CHECK(pith::try_inspect(pith::ConstBytes(frame.data(), 70), cut, &error) == PITH_ERR_TRUNCATED);
    CHECK(cut.header_bytes == info.header_bytes && *error.text);
    double bound = 0, c_bound = 0;
    CHECK_OK(pith_error_bound(frame.data(), frame.size(), &c_bound, nullptr));
    CHECK_OK(pith::try_error_bound(frame, bound));
    CHECK(bound == c_bound && pith::error_bound(frame) == c_bound && c_bound > 0);
    pith::verify(frame);
    CHECK_OK(pith::try_verify(frame));
    Frame damaged = frame;
    damaged.back() ^= std::byte{0x10};
    damaged[damaged.size() - 20] ^= std::byte{0x10};
    thrown(PITH_ERR_CHECKSUM, [&] { pith::verify(damaged); });
    damaged[0] ^= std::byte{1};
    thrown(PITH_ERR_MAGIC, [&] { (void)pith::inspect(damaged); });
    thrown(PITH_ERR_MAGIC, [&] { (void)pith::error_bound(damaged); });
    thrown(PITH_ERR_SPEC, [&] { (void)pith::compress("eb:abs", pith::view(now)); });
    thrown(PITH_ERR_SPEC, [&] { (void)pith::compress_bound("eb:abs", pith::view(now)); });
    CHECK(pith::compress("raw", pith::view(now)).size() > 12000);
}

} // namespace

int main() {
    test_views();
    test_structs();
    test_errors();
    test_plans();
    test_works();
    test_wdiff();
    test_external_base();
    test_save();
    test_moves();
    test_lists();
    test_sums();
    test_residuals();
    test_bounds();
    test_sets();
    test_busy();
    test_caches();
    test_layers();
    test_one_shot();
    std::puts("pith.hpp does what pith.h does");
    return 0;
}
