/* pith.h - the whole stable interface of pith, a library of lossy tensor codecs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is not declared here is not API. The names in this file keep their meaning within a major
 * version; numbers of enumerators are frozen.
 *
 * The ideas, in the order they are needed:
 *   view    where a tensor lies in the caller's memory: pointer, dtype, shape, strides.
 *   spec    which codec and how, as text: "wdiff:bits=4,group=2048".
 *   layout  what is encoded: dtype, shape, base dtype, slots.
 *   plan    spec + layout, checked, with every size known before any data exists. Immutable.
 *   work    scratch memory, threads and the text of the last error: one for each calling thread.
 *   stream  what one end of a sequence of frames remembers from step to step: the base of a
 *           difference codec, the residual of error feedback, steps, random seed, statistics.
 *   item    a slot of a stream, a view and a frame: calls take lists of them.
 *   frame   the self-describing bytes that travel; doc/FORMAT.md is their normative description.
 *
 * Threads. A plan may be used by any number of threads at once. A work serves one call at a time, a
 * stream (and a cache, kv.h) one that changes it; a second one is answered with PITH_ERR_BUSY.
 * Different works and streams may be used from any threads at once. There is no process-wide state
 * but that of Forks and the CPU features once found, no init function, no environment variable, no
 * output to stdio. A call runs on the calling thread unless its work was made with threads or a
 * runner (pith_env).
 *
 * Forks. OpenMP's threads do not live on in a child of fork, and its runtime may wait for them for
 * ever (GCC's does), where the parent used OpenMP with pith or without. So in a process that was
 * forked after pith was loaded, and in its children, pith_env.threads starts no threads: calls are
 * serial, the bytes are the same, whenever the work was made. A runner is used as ever; what it
 * does after a fork is the caller's business, and so is a fork while another thread is in a call,
 * for the works and streams of that call. Not detected: a fork before pith was loaded (load it in
 * the parent, or leave threads at 0), and processes made without fork's handlers (the system call
 * clone, _Fork). A child that calls exec begins anew. Unloading the library takes its handler away.
 *
 * Memory. Only calls that take a pith_env allocate: pith_plan_create, and those without a stream,
 * which make a plan for their own duration. Works and streams lie in memory of the caller's;
 * encoding and decoding allocate nothing. Every pointer handed in is borrowed for the duration of
 * the call, except the memory of a work, a stream and a bound base, and the plan of a stream, which
 * must outlive it. What a call writes must not overlap what else it reads or writes, but that a
 * dense view may lie in its base, each element in its own place and dtype. Calls look at the view,
 * frames and dense base of each item or sum (PITH_ERR_ARG, nothing changed), at no other memory.
 *
 * Structs. Most of the caller's begin with their size: zero every field you do not set, and set
 * size = sizeof the struct. Fields beyond the caller's size are defaults; a larger size than the
 * library's, up to 4096, is accepted when the unknown rest is zero (else PITH_ERR_UNSUPPORTED).
 * Structs that calls fill in have one too, set before the call: no more than that is written, and
 * what a newer caller's struct has beyond the library's is set to 0. Those without a size, such as
 * pith_view, stay as they are within a major version.
 *
 * Errors. A call that takes a work leaves there why it failed (pith_work_error); calls before there
 * is one take a pith_error, which may be NULL. Else only arguments whose text says so may be NULL:
 * calls that return a status answer PITH_ERR_ARG; calls that return none do not check.
 *
 * Floating point. Every entry point saves the floating-point control word, works with round to
 * nearest even and without flushing subnormals, and restores what it found. The bytes of a frame
 * and the decoded values depend on nothing else: not on the CPU, the thread count or the caller's
 * rounding mode. One exception, by nature: bytes made by zstd (codec lossless, mode=auto of embed,
 * mode=ratio of act, modes ratio and auto of eb, all without entropy=rans; entropy=zstd) are the
 * same for one zstd version; the values they decode to are the same for every version. Bytes that
 * zstd never wrote, of a damaged frame, may decode to other values with another version: frames
 * with block checksums (PITH_LAYOUT_CHECKSUMS) are refused instead.
 *
 * Hostile input. pith_inspect and every call that takes frame bytes accept any bytes: they answer
 * with a status or a tensor. After a data error the contents of the output view are unspecified,
 * except where a status promises that nothing was written; no byte outside the view changes. But
 * nothing that a call reads may change before it returns: calls check bytes, then read them again,
 * and look at values more than once. What lies in memory that others can write to, such as memory
 * shared with another process, is copied first.
 *
 * Not promised: that two releases of pith write the same bytes for one input (each reads what the
 * older ones wrote), and that a frame of a lossy codec survives a second encoding unchanged (kv.h
 * says from when on its pages do).
 */
#ifndef PITH_PITH_H
#define PITH_PITH_H

#include <stddef.h>
#include <stdint.h>

#include "pith/version.h"

#if defined(_WIN32) && defined(PITH_SHARED)
#ifdef PITH_BUILD
#define PITH_API __declspec(dllexport)
#else
#define PITH_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define PITH_API __attribute__((visibility("default")))
#else
#define PITH_API
#endif

#if defined(__GNUC__)
#define PITH_NODISCARD __attribute__((warn_unused_result))
#else
#define PITH_NODISCARD
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Status ---------------------------------------------------------------------------------
 * 0 is success, negative is failure. -1..-19: the caller's arguments. -20..-39: the frame's bytes.
 * -40..-59: the environment. -60..-79: communication (pith_collective.h), and PITH_ERR_BUSY. For
 * the same frame the status is the same on every CPU and thread count: with several damaged blocks,
 * that of the lowest block. */
typedef enum pith_status {
    PITH_OK = 0,
    PITH_ERR_ARG = -1,         /* an argument is outside what its text allows */
    PITH_ERR_SPEC = -2,        /* the codec spec does not parse; pith_error says why and where */
    PITH_ERR_DTYPE = -3,       /* the codec or the call does not take this dtype */
    PITH_ERR_SHAPE = -4,       /* a view does not have the shape or count the call needs */
    PITH_ERR_SPACE = -5,       /* the memory given is too small; nothing usable was written */
    PITH_ERR_LIMIT = -6,       /* the frame declares more output than pith_env.max_output_bytes */
    PITH_ERR_UNSUPPORTED = -7, /* valid, but this codec or build cannot do it */
    PITH_ERR_STATE = -8,       /* the stream cannot do this now: no base is bound, a failed call
                                  left it half written, or a slot holds no set (sparse.h) */
    PITH_ERR_TRUNCATED = -20,  /* the bytes end before the frame does */
    PITH_ERR_MAGIC = -21,      /* not a pith frame */
    PITH_ERR_NEWER = -22,      /* format version, codec, revision or section of a newer pith */
    PITH_ERR_CORRUPT = -23,    /* breaks a rule of doc/FORMAT.md */
    PITH_ERR_CHECKSUM = -24,   /* header or block checksum differs */
    PITH_ERR_BASE = -25,       /* the base, or the set that is held, is not the encoder's; nothing
                                  was written. From encode: others have changed the base; see
                                  pith_encode */
    PITH_ERR_STEP = -26,       /* the frame is of another step than the stream's next one;
                                  nothing was written */
    PITH_ERR_MISMATCH = -27,   /* a valid frame of another plan (codec, setting, dtype or count);
                                  nothing was written */
    PITH_ERR_MEMORY = -40,     /* the allocator returned NULL */
    PITH_ERR_RUNNER = -41,     /* the caller's runner reported failure */
    PITH_ERR_DEVICE = -42,     /* the device's runtime reported failure (pith_cuda.h) */
    PITH_ERR_TIMEOUT = -60,    /* not all ranks took part in time */
    PITH_ERR_TRANSPORT = -61,  /* the transport of a channel failed */
    PITH_ERR_BROKEN = -62,     /* the channel met one of these two before */
    PITH_ERR_BUSY = -63,       /* another call is using this work, stream, cache or channel */
    PITH_ERR_INTERNAL = -99    /* a bug in pith */
} pith_status;

/* A static string such as "PITH_ERR_BASE"; "PITH_ERR_UNKNOWN" for a number not above. */
PITH_API const char *pith_status_name(pith_status status);
/* What the status means, in a static half-sentence such as "the base is not the encoder's". */
PITH_API const char *pith_status_text(pith_status status);

/* More about the last failure of a call. text is a sentence with the numbers and names that it
 * speaks of (expected and found, the key, the slot), "" after success. offset is the place: a byte
 * of the frame or of the spec, a block, or what the call's text says; else 0. item: the number, in
 * the list, of the item that the call's status is of; else 0. A call that finds size 0 writes
 * nothing. */
enum { PITH_ERROR_TEXT = 232 };
typedef struct pith_error {
    size_t size;
    uint64_t offset;
    uint64_t item;
    char text[PITH_ERROR_TEXT];
} pith_error;

/* ---- Version --------------------------------------------------------------------------------*/
/* Version of the library loaded: major * 1000000 + minor * 1000 + patch. */
PITH_API uint32_t pith_version(void);
/* Newest frame format version this library reads and writes. */
PITH_API uint32_t pith_format_version(void);

/* ---- Dtypes ---------------------------------------------------------------------------------
 * The numbers also stand in frames. PITH_NONE means "no dtype". */
typedef enum pith_dtype {
    PITH_NONE = 0,
    PITH_F32 = 1,
    PITH_BF16 = 2,
    PITH_F16 = 3,
    PITH_F64 = 4,
    PITH_U8 = 5,
    PITH_I8 = 6,
    PITH_U16 = 7,
    PITH_I16 = 8,
    PITH_U32 = 9,
    PITH_I32 = 10,
    PITH_U64 = 11,
    PITH_I64 = 12,
    PITH_BOOL = 13,   /* one byte each, kept as it is */
    PITH_F8E4M3 = 14, /* stored, not computed with */
    PITH_F8E5M2 = 15
} pith_dtype;

/* Bytes of one element; 0 for PITH_NONE and unknown numbers. */
PITH_API size_t pith_dtype_bytes(uint32_t dtype);
/* "f32", "bf16", ...; "none" for anything else. */
PITH_API const char *pith_dtype_name(uint32_t dtype);
/* The inverse; PITH_NONE for an unknown name. */
PITH_API uint32_t pith_dtype_from_name(const char *name);

/* ---- Views ----------------------------------------------------------------------------------
 * Element (i0, i1, ...) lies at data + (i0 * stride[0] + i1 * stride[1] + ...) * dtype bytes.
 * Any alignment. Strides count elements and may be negative; a zero stride (broadcast) is legal on
 * input only. Elements of an output view must not overlap each other (not checked beyond zero
 * strides). ndim 0 is one element. The logical order of elements is row-major over the shape.
 * data may be NULL when the view has no elements. Input views are never written to. */
enum { PITH_MAX_NDIM = 8 };
typedef struct pith_view {
    void *data;
    uint32_t dtype;
    uint32_t ndim;
    uint64_t shape[PITH_MAX_NDIM];
    int64_t stride[PITH_MAX_NDIM];
} pith_view;

/* A dense row-major view. shape has ndim entries. With ndim above PITH_MAX_NDIM the result has
 * dtype PITH_NONE, which every call refuses. */
PITH_API pith_view pith_view_dense(const void *data, uint32_t dtype, uint32_t ndim,
                                   const uint64_t *shape);
/* A dense view of one dimension. */
PITH_API pith_view pith_view_flat(const void *data, uint32_t dtype, uint64_t count);
/* Number of elements; UINT64_MAX when the product does not fit. */
PITH_API uint64_t pith_view_count(const pith_view *view);

/* ---- Environment ----------------------------------------------------------------------------
 * What the host gives the library, made once and handed to every call that takes one, which uses of
 * it what it needs: pith_plan_create the allocator and cpu_mask, pith_work_init the runner, threads
 * and max_output_bytes, one-shot calls all. NULL means all defaults. */
typedef struct pith_env {
    size_t size;
    /* Both or neither. align is a power of two up to 64. release gets the same size back. */
    void *(*alloc)(void *user, size_t bytes, size_t align);
    void (*release)(void *user, void *memory, size_t bytes);
    void *alloc_user;
    /* Run job(arg, i) once for every i < count, in any order, on any threads, return 0 after all
     * have ended; anything else becomes PITH_ERR_RUNNER. No job may still run when it returns, in
     * either case. Used instead of OpenMP when set. */
    int (*run)(void *user, void (*job)(void *arg, size_t index), void *arg, size_t count);
    void *run_user;
    /* 0 or 1: the calling thread only. n: OpenMP threads (PITH_ERR_UNSUPPORTED in a build without
     * it), or the number of jobs given to run. Inside the caller's own parallel region OpenMP is
     * not nested, and after a fork it is not used: the work is serial. At most 1024. Where no
     * thread can be started (a limit of the process, memory), OpenMP's runtime may end the process,
     * as GCC's does; where that must not be, give run. */
    uint32_t threads;
    /* 0: every CPU feature found. Else a mask of PITH_CPU_*: for tests and support; it never
     * changes a byte. */
    uint32_t cpu_mask;
    /* 0: no limit. Else decoding refuses a frame with more bytes of values (PITH_ERR_LIMIT), and
     * calls without a stream take no more threads for a frame than whose scratch memory has as many
     * bytes together, but at least one. That of a thread is up to 65 bytes for each element of the
     * frame's largest block, which has no more than 2^24, 8 for each block, and less than 2^20. */
    uint64_t max_output_bytes;
} pith_env;

enum {
    PITH_CPU_AVX2 = 0x1,   /* AVX2, BMI2, F16C */
    PITH_CPU_AVX512 = 0x2, /* AVX-512 F, BW, VL, DQ, VBMI, VBMI2, BITALG, GFNI; implies AVX2 */
    PITH_CPU_NEON = 0x4,
    PITH_CPU_SCALAR = 0x40000000 /* no feature at all */
};

/* Features found on this machine, as the mask above. */
PITH_API uint32_t pith_cpu_features(void);

/* ---- Codecs and specs -----------------------------------------------------------------------
 * Grammar: name[:key=value[,key=value]...]. Unknown keys, repeated keys, values out of range, and
 * values other than the default of a key that has no effect beside the others (block of kv without
 * entropy) are errors. doc/CODECS.md and `pith codecs` list the keys. */
enum {
    PITH_TRAIT_LOSSLESS = 0x1,   /* decodes to the same bits */
    PITH_TRAIT_FIXED_RATE = 0x2, /* size follows from the layout alone (default setting) */
    PITH_TRAIT_BASE = 0x4,       /* can code against a base */
    PITH_TRAIT_EXEMPT = 0x8,     /* takes pith_layout.exempt */
    PITH_TRAIT_BOUND = 0x10,     /* frames state a bound that holds for every value */
    PITH_TRAIT_UPDATE = 0x20,    /* made for changes: of little use without a base */
    PITH_TRAIT_SPARSE = 0x40     /* sends chosen elements, others decode to 0: pith/sparse.h */
};

typedef struct pith_codec_info {
    size_t size;
    uint32_t id;       /* as in frames */
    uint32_t revision; /* the newest; frames of it and all before it are read */
    uint32_t traits;
    uint32_t dtypes;  /* bit d set: takes dtype number d */
    const char *name; /* static, as all text of this struct and the next */
    const char *summary;
} pith_codec_info;

/* Of a key: it has an effect on streams and caches, none on a frame by itself. */
enum { PITH_KEY_STREAM = 0x1 };

typedef struct pith_key_info {
    size_t size;
    const char *name;
    const char *values; /* readable: "2,3,4,6,8" or "nearest|stochastic" */
    const char *summary;
    char initial[16]; /* default value as text */
    uint32_t traits;  /* PITH_KEY_... */
} pith_key_info;

/* Codec number index (0, 1, ...), or PITH_ERR_ARG past the last. */
PITH_API pith_status pith_codec_at(uint32_t index, pith_codec_info *out);
/* Key number `key` of codec number `index`, or PITH_ERR_ARG past the last. */
PITH_API pith_status pith_codec_key_at(uint32_t index, uint32_t key, pith_key_info *out);
/* Check a spec and write its canonical form: codec name, then every key that differs from its
 * default, in table order. text may be NULL; PITH_SPEC_MAX bytes always suffice for it. error may
 * be NULL; its offset is a position in spec. PITH_ERR_SPEC: the spec does not parse, or its keys
 * exclude each other; PITH_ERR_SPACE: the text and its final 0 have more than cap bytes;
 * PITH_ERR_ARG: spec is NULL. */
enum { PITH_SPEC_MAX = 256 };
PITH_NODISCARD PITH_API pith_status pith_spec_check(const char *spec, char *text, size_t cap,
                                                    pith_error *error);

/* ---- Layouts --------------------------------------------------------------------------------*/
/* Flags. Encode with an external base looks whether that is still what the last call left (see
 * pith_encode): at a sample, the first 64 bytes of every 12352 of a block, which costs one to three
 * hundredths of the time. A tensor that was loaded, swapped or updated in place shows there; a
 * change between the samples does not, and the receivers find it at the step after, as they do all
 * with TRUST, which leaves the look out. CHECK looks at every byte, of a base inside of the stream,
 * too, for a fifth to a quarter of wdiff's time. The stream has 8 bytes more per block. Streams of
 * plans that differ in these two alone load what the other saved. With base_hash=off nothing is
 * looked at. PITH_ERR_ARG: both. PITH_ERR_UNSUPPORTED: CHECK without a base or with base_hash=off,
 * TRUST without EXTERNAL_BASE. */
enum {
    PITH_LAYOUT_CHECKSUMS = 0x1,     /* a checksum per block, in every frame */
    PITH_LAYOUT_EXTERNAL_BASE = 0x2, /* the base lies in caller memory: pith_stream_bind_base;
                                        without a base_dtype it means nothing */
    PITH_LAYOUT_CHECK_BASE = 0x4,    /* encode compares every byte of the base, see above */
    PITH_LAYOUT_TRUST_BASE = 0x8     /* encode does not look whether the base was changed */
};

/* Elements that go around the codec (norm gains, biases): they are not in any group. Only for
 * codecs with PITH_TRAIT_EXEMPT. */
enum {
    PITH_EXEMPT_16 = 1,   /* as 16 bits: bf16, or the dtype itself when it has 16 bits */
    PITH_EXEMPT_EXACT = 2 /* in the tensor's dtype (a NaN may become the canonical one) */
};
typedef struct pith_exempt {
    uint64_t first, count; /* elements of the tensor taken flat */
    uint64_t how;          /* PITH_EXEMPT_* */
} pith_exempt;
enum { PITH_EXEMPT_MAX = 65536 };

typedef struct pith_layout {
    size_t size;
    uint32_t dtype;      /* of the values */
    uint32_t base_dtype; /* PITH_NONE: no base. wdiff, kv: f32, bf16 or f16. lossless: = dtype */
    uint32_t ndim;       /* 0..PITH_MAX_NDIM */
    uint32_t flags;      /* PITH_LAYOUT_*; unknown bits are refused */
    uint64_t shape[PITH_MAX_NDIM];
    /* Slots: the tensor, taken flat in row-major order, is cut into pieces with one frame each: the
     * shards of a reduce-scatter, the parameters of a bucket. slots 0 or 1: one frame that keeps
     * the shape. Otherwise frames are one-dimensional. */
    uint64_t slots;
    uint64_t slot_count;         /* elements per slot, L; 0: ceil(n / slots). Slot i holds
                                    [min(n, iL), min(n, (i+1)L)); needs slots * L >= n */
    const uint64_t *slot_counts; /* or: elements of every slot (their sum is n); borrowed for
                                    pith_plan_create only */
    /* Carried by frames and not interpreted, such as a file header needed to restore a file byte
     * for byte. At most PITH_SOURCE_MAX bytes; borrowed for the life of the plan. */
    const void *source;
    size_t source_bytes;
    /* Ranges in ascending order without overlaps, at most PITH_EXEMPT_MAX (beside a source of
     * PITH_SOURCE_MAX bytes, two less). Part of the plan: frames of a plan with another map are
     * PITH_ERR_MISMATCH. Borrowed for pith_plan_create only. */
    const pith_exempt *exempt;
    size_t exempt_count;
} pith_layout;
enum { PITH_SOURCE_MAX = 1048576 };

/* ---- Plans ----------------------------------------------------------------------------------*/
typedef struct pith_plan pith_plan;
typedef struct pith_work pith_work;
typedef struct pith_stream pith_stream;

/* Parse, check, size, and allocate the plan: spec, layout, env (NULL: defaults; its allocator must
 * outlive the plan). Nothing in a plan changes afterwards: any number of threads, works and streams
 * use it at once, and one plan serves all tensors of a shape. On failure *plan is NULL.
 * PITH_ERR_SPEC: the spec does not parse, or sets what the layout excludes; PITH_ERR_DTYPE,
 * PITH_ERR_SHAPE: what the codec does not take; PITH_ERR_UNSUPPORTED: flags or exempt ranges that
 * it has not; PITH_ERR_ARG: an argument is NULL, or a field is not what its text allows;
 * PITH_ERR_MEMORY. */
PITH_NODISCARD PITH_API pith_status pith_plan_create(const pith_plan **plan, const char *spec,
                                                     const pith_layout *layout, const pith_env *env,
                                                     pith_error *error);
/* Ends with the last stream and cache of the plan. NULL is allowed. */
PITH_API void pith_plan_destroy(const pith_plan *plan);

typedef struct pith_sizes {
    size_t size;
    uint64_t slot_bytes;   /* largest frame that pith_encode makes of any slot at any step: the
                              stride to give slots in a buffer, and a capacity that suffices. With
                              key_every=N key frames are among them; frames of held sets with more
                              elements than the hard limit are not (sparse.h) */
    uint64_t frame_bytes;  /* the largest that is no key frame: with key_every=N all but every Nth
                              step have space in this (pith_plan_is_key) */
    uint64_t key_bytes;    /* largest key frame: may be more than the others (wdiff); 0: the plan
                              makes none */
    uint64_t stream_bytes; /* memory to give pith_stream_init; where 64 bits do not hold it, there
                              is no plan (PITH_ERR_SHAPE) */
    uint64_t save_bytes;   /* of pith_stream_save's output */
    uint64_t alignment;    /* of tensors and frames, in bytes, that lets encode and decode take
                              their fast path; any works */
    uint64_t slots;
    uint32_t fixed; /* 1: every frame has exactly pith_plan_frame_bytes of its slot */
} pith_sizes;
/* The sizes of a plan, in bytes. PITH_ERR_ARG: an argument is NULL, or out->size is not set. */
PITH_API pith_status pith_plan_sizes(const pith_plan *plan, pith_sizes *out);
/* First element and element count of a slot. PITH_ERR_ARG past the last, and where an argument is
 * NULL. */
PITH_API pith_status pith_plan_slot(const pith_plan *plan, uint64_t slot, uint64_t *first,
                                    uint64_t *count);
/* Bytes of the slot's frame (exact when sizes.fixed, else an upper bound that always suffices),
 * of a key frame when key is not 0; 0 where there is no such slot, or no key frames. */
PITH_API uint64_t pith_plan_frame_bytes(const pith_plan *plan, uint64_t slot, int key);
/* 1 when the encoder makes step `step` a key frame by the spec's own rule (key_every=N). */
PITH_API int pith_plan_is_key(const pith_plan *plan, uint64_t step);
/* The canonical spec of the plan, as pith_spec_check writes it, which PITH_SPEC_MAX bytes hold.
 * PITH_ERR_SPACE: cap bytes do not; PITH_ERR_ARG: an argument is NULL. */
PITH_NODISCARD PITH_API pith_status pith_plan_spec(const pith_plan *plan, char *text, size_t cap);
/* The layout the plan was made for, without slot_counts (pith_plan_slot tells them) and exempt
 * ranges (pith_plan_exempt). PITH_ERR_ARG: an argument is NULL, or out->size is not set. */
PITH_NODISCARD PITH_API pith_status pith_plan_layout(const pith_plan *plan, pith_layout *out);
/* Number of exempt ranges of the plan's layout. The first `capacity` of them are written to ranges,
 * which may be NULL when that is 0. */
PITH_API size_t pith_plan_exempt(const pith_plan *plan, pith_exempt *ranges, size_t capacity);
/* A number that is equal for two plans only where each takes the other's frames, on every machine:
 * ranks compare it once, at setup, instead of meeting PITH_ERR_MISMATCH in their first step. What
 * only encoders differ in (rounding, search, effort) does not count; PITH_LAYOUT_CHECKSUMS does,
 * since sizes of frames depend on it, although frames of either kind are decoded, and so do the
 * shape, and the revision of frames, since an older program may not read the newer one. */
PITH_API uint64_t pith_plan_fingerprint(const pith_plan *plan);

/* ---- Work -----------------------------------------------------------------------------------
 * What a call needs besides its arguments: scratch memory, threads, a place for the text of an
 * error. One for each thread that calls; thousands of streams and caches share it, of any plans
 * that it is large enough for. It remembers nothing that a result depends on. */

/* Bytes of a work with which calls of any of these plans run on `threads` threads (pith_env; 0
 * is 1); UINT64_MAX when that does not fit in 64 bits. */
PITH_API uint64_t pith_work_bytes(const pith_plan *const *plans, size_t count, uint32_t threads);
/* Build a work in memory of the caller's, of any alignment; it needs not be freed. env (NULL:
 * defaults) is copied. Larger memory serves larger plans: a call of a plan for which it is too
 * small answers PITH_ERR_SPACE, and so does this one where bytes hold no work at all. PITH_ERR_ARG:
 * an argument is NULL, or a field of env is not what its text allows; PITH_ERR_UNSUPPORTED: threads
 * without OpenMP, or an env of a newer pith. */
PITH_NODISCARD PITH_API pith_status pith_work_init(void *memory, size_t bytes, const pith_env *env,
                                                   pith_work **work, pith_error *error);
/* Why the last call with this work failed: kept in the work until its next call. */
PITH_API const pith_error *pith_work_error(const pith_work *work);

/* ---- Streams --------------------------------------------------------------------------------
 * What one end of a sequence of frames remembers, slot by slot. Every call takes one, whatever the
 * codec. It lies in memory of the caller's and needs not be freed.
 *
 * Steps. Each slot has the step of its next frame. It grows by one with every successful encode
 * and, with a base, with every successful decode. Random bits, schedules of bounds and key_every
 * depend on it, and so ranks that must draw alike (round=antithetic) have to agree on it: after a
 * step that not all of them took, pith_stream_set_step.
 *
 * With a base: the base, its hash, the next step. Sender and receivers that start from one base and
 * apply the same frames hold bit-identical bases after every step. To mend a stream whose receiver
 * answers PITH_ERR_STEP (a frame was lost) or PITH_ERR_BASE: send it a key frame (PITH_KEY_FRAME),
 * or give both sides one base and step with pith_stream_set_base.
 *
 * Error feedback (grad and topk with ef=full or ef=ema:0.W): what encoding lost so far (the
 * residual, two copies of 4 bytes an element, kept as the codec sees it: transformed, where it
 * transforms; with momentum as much again). Encoding adds it to the values and keeps what is lost
 * now; where that is not finite the residual stays.
 *
 * One call at a time. A call marks the streams that it may change and takes the marks away when it
 * returns; a second call, from another thread or from inside a runner, answers PITH_ERR_BUSY and
 * changes nothing. Calls that take a `const pith_stream *` mark nothing, so that they may run side
 * by side; what they find marked those with a work answer with PITH_ERR_BUSY, and nothing must
 * change the stream until they return. So does decoding with PITH_ADD a frame that needs the slot's
 * set; others need nothing that changes. Where a thread died inside a call the mark stays:
 * pith_stream_unlock. It stays in the call's work as well, which pith_work_init makes anew. */
typedef struct pith_stream_options {
    size_t size;
    /* Of the random bits, which depend on (seed, rng_stream, step, element within the slot) only.
     * Ranks that round independently (round=stochastic) take different rng_stream. Only the
     * encoder's matter. */
    uint64_t seed;
    uint32_t rng_stream;
    /* round=antithetic: rank r of N with one seed, rng_stream and step rounds by frac(u + r/N), so
     * that the errors of the N frames cancel in their sum. 0 of 0 is 0 of 1; rank < ranks <=
     * 65536. */
    uint32_t rank, ranks;
    uint64_t step; /* of every slot's first frame */
} pith_stream_options;

/* Build a stream in memory of sizes.stream_bytes, any alignment. The base or residual is all +0.
 * options may be NULL. The plan is kept: it must outlive the stream. PITH_ERR_SPACE: the memory is
 * too small; PITH_ERR_ARG: an argument is NULL, or options that cannot be. */
PITH_NODISCARD PITH_API pith_status pith_stream_init(const pith_plan *plan, void *memory,
                                                     size_t bytes,
                                                     const pith_stream_options *options,
                                                     pith_stream **stream, pith_error *error);
/* The plan that the stream was made for. */
PITH_API const pith_plan *pith_stream_plan(const pith_stream *stream);
/* Take away the mark of a call that never returned, since its thread was killed. Only where no call
 * is using the stream any more. Slots that the call was working on answer PITH_ERR_STATE, where
 * they have a base, until a key frame, pith_stream_load, _set_base, _bind_base or _reset; of codec
 * topk they hold no set (sparse.h). */
PITH_API void pith_stream_unlock(pith_stream *stream);
/* As after pith_stream_init with the stream's options. An external base is set to +0.
 * PITH_ERR_BUSY: another call uses the stream or the work. */
PITH_NODISCARD PITH_API pith_status pith_stream_reset(pith_work *work, pith_stream *stream);
/* Take back what encoding step `step` did, in every slot whose last encode was of that step: its
 * step, and what it did to the residual: for steps that a trainer throws away because a gradient
 * overflowed. Once per encode; a second call finds nothing to take back, and so does one after
 * pith_stream_load. Counters stay. PITH_ERR_STATE for a stream with a base. */
PITH_NODISCARD PITH_API pith_status pith_stream_rollback(pith_work *work, pith_stream *stream,
                                                         uint64_t step);
/* Set the step of the slot's next frame; pith_stream_rollback takes no earlier one back any more.
 * PITH_ERR_ARG: there is no such slot. */
PITH_NODISCARD PITH_API pith_status pith_stream_set_step(pith_work *work, pith_stream *stream,
                                                         uint64_t slot, uint64_t step);
/* The step of the slot's next frame; 0 where there is no such slot. */
PITH_API uint64_t pith_stream_step(const pith_stream *stream, uint64_t slot);
/* Seed, rng_stream, rank and ranks from now on, as in the options, whose step is not used.
 * PITH_ERR_ARG: options is NULL, or no rank of so many. */
PITH_NODISCARD PITH_API pith_status pith_stream_set_random(pith_work *work, pith_stream *stream,
                                                           const pith_stream_options *options);
/* PITH_LAYOUT_EXTERNAL_BASE: use the caller's memory, dense, of the layout's whole element count
 * in the base dtype (a framework's live parameters), as the base. It is read, its hash taken,
 * and from then on written by encode and decode. It must stay alive and unchanged by others
 * between calls: encode looks at a sample (PITH_LAYOUT_CHECK_BASE), pith_stream_verify at all.
 * PITH_ERR_STATE: the layout has not that flag; PITH_ERR_ARG: base is NULL. */
PITH_NODISCARD PITH_API pith_status pith_stream_bind_base(pith_work *work, pith_stream *stream,
                                                          void *base, uint64_t step);
/* Set the base of all slots from a view of the whole tensor (converted to the base dtype by round
 * to nearest even), which must not overlap an external base, and the next step. PITH_ERR_STATE: the
 * stream has no base, or none is bound; PITH_ERR_DTYPE, PITH_ERR_SHAPE: the view's dtype or count
 * is another. */
PITH_NODISCARD PITH_API pith_status pith_stream_set_base(pith_work *work, pith_stream *stream,
                                                         const pith_view *view, uint64_t step);
/* Copy the base of one slot (view count = the slot's) or of all (view count = whole count) out,
 * converted to the view's float dtype by round to nearest even. PITH_ERR_STATE: there is no base,
 * or a failed call left it half written; PITH_ERR_ARG: there is no such slot; PITH_ERR_DTYPE,
 * PITH_ERR_SHAPE: as for pith_stream_set_base. */
PITH_NODISCARD PITH_API pith_status pith_stream_get_base(pith_work *work, const pith_stream *stream,
                                                         uint64_t slot, const pith_view *view);
/* Hash of a slot's base (doc/FORMAT.md, section 2.4): equal on every replica; 0 where there is no
 * such slot or no hash. */
PITH_API uint64_t pith_stream_base_hash(const pith_stream *stream, uint64_t slot);
/* Re-read the base and compare hashes: PITH_ERR_BASE when memory changed, PITH_ERR_UNSUPPORTED
 * with base_hash=off, PITH_ERR_STATE without a base. */
PITH_NODISCARD PITH_API pith_status pith_stream_verify(pith_work *work, const pith_stream *stream);
/* The residual of elements [first, first + view count) of the tensor taken flat, as values rounded
 * to the view's dtype (f32, bf16, f16): for frameworks that cut their buckets anew, which read the
 * residual of the old stream and write it to the new one. A residual that is kept transformed, in
 * runs of H elements (grad: rotate=H; topk: 64 with transform=dct, 32 with hadamard), is
 * transformed back. Rotations round every element to f32 log2(H) times each way, an error of at
 * most log2(H) * 2^-24 of the root of the sum of squares of its run; cosines form sums of 64
 * products, each rounded. A value that the view's dtype does not reach is told as the dtype's
 * largest finite number with its sign. Exempt elements have no residual of their own.
 * PITH_ERR_STATE: the stream has no error feedback; PITH_ERR_SHAPE: the range does not lie in the
 * tensor; PITH_ERR_DTYPE: the view's; PITH_ERR_BUSY: another call changes the stream. */
PITH_NODISCARD PITH_API pith_status pith_stream_get_residual(pith_work *work,
                                                             const pith_stream *stream,
                                                             uint64_t first, const pith_view *view);
/* The other way: replaces the range, transforms the whole runs that it touches, and makes the slots
 * that it touches forget the older copy (pith_stream_rollback). What a value is transformed to is
 * kept within f32's range, so that all that pith_stream_get_residual gives is taken. Errors as
 * pith_stream_get_residual; PITH_ERR_ARG too, for a value that is not finite: nothing changed. */
PITH_NODISCARD PITH_API pith_status pith_stream_set_residual(pith_work *work, pith_stream *stream,
                                                             uint64_t first, const pith_view *view);
/* Serialise everything, base included, into sizes.save_bytes bytes, the same on every machine.
 * PITH_ERR_SPACE: cap is less; PITH_ERR_STATE: no base is bound, or a failed call left it half
 * written. */
PITH_NODISCARD PITH_API pith_status pith_stream_save(pith_work *work, const pith_stream *stream,
                                                     void *dst, size_t cap, size_t *written);
/* Inverse of save, into an initialised stream (external base: bound) of a plan of the same spec and
 * layout, which goes on as the saved one would have: with its steps, seed, rng_stream, rank and
 * ranks. Any bytes are safe. On failure the stream is as before. PITH_ERR_MISMATCH: saved by
 * another plan; PITH_ERR_MAGIC, _TRUNCATED, _CORRUPT, _CHECKSUM: the bytes are not what was saved;
 * PITH_ERR_STATE: no base is bound. */
PITH_NODISCARD PITH_API pith_status pith_stream_load(pith_work *work, pith_stream *stream,
                                                     const void *src, size_t bytes);

typedef struct pith_stats {
    size_t size;
    uint64_t frames; /* encoded, decoded or reduced with this stream */
    uint64_t key_frames;
    uint64_t saturated; /* results that overflowed (the base dtype; without a base, f32) and were
                           set to its largest value */
    uint64_t poisoned;  /* groups that decode to NaN: they held a non-finite value or difference,
                           or values so large that their rotation overflowed */
    uint64_t exact;   /* values that encoding stored as they are because of the bound; not saved */
    uint64_t nonzero; /* act: values that do not decode to 0; embed: those of rows coded in full; of
                           encodes; not saved */
} pith_stats;
/* The counts of all slots together, since the stream was made or reset; those that are saved, since
 * before it was. PITH_ERR_ARG: an argument is NULL, or out->size is not set. */
PITH_API pith_status pith_stream_stats(const pith_stream *stream, pith_stats *out);

/* ---- Items: encode and decode ---------------------------------------------------------------
 * A call takes a list of items: one tensor, or the 300 parameters of a bucket, which are slots of
 * one stream or have a stream each. The arguments of all are checked first: where one is not what
 * its text allows, every item has that status, and nothing changed in any.
 * Then every item is worked on, whatever becomes of the others, and has a status of its own. The
 * call's status is that of the lowest item that failed, of which pith_work_error speaks: its number
 * is there (PITH_ERR_RUNNER where the runner failed; items it did not reach have that status). A
 * work with threads uses them across items and within large ones; results do not depend on that.
 *
 * Several items may be slots of one stream, but no slot may come twice (PITH_ERR_ARG), except with
 * PITH_ADD, which only reads what the stream's plan says and, for a frame that was made with
 * PITH_SAME_SET or PITH_SAME_BLOCKS, the slot's set. A view is either the slot's piece (count =
 * the slot's) or the whole tensor (count = the layout's, the slot is taken out of it). What items
 * of a list write (frames, or elements of views) must not overlap, which is not checked: frames
 * that are added to one view are items of one list each, or one pith_sum.
 *
 * Whose frame it is. A frame does not carry the number of its slot: ends number slots as they need
 * (what one rank sends as piece 3 is another's piece 0), and pages move. Every call that decodes
 * compares what a frame does say with its slot: the codec and its parameters, dtypes, element
 * count, shape of blocks and exempt ranges (PITH_ERR_MISMATCH); with a base also the step
 * (PITH_ERR_STEP) and, unless base_hash=off, the hash of the slot's base (PITH_ERR_BASE), which
 * differs wherever the bases of two slots do. Beyond that a frame of another slot of the same
 * element count is a good frame, and its values are the result; so is a key frame of any such slot.
 * That each frame reaches its slot is the caller's to see to: by place where frames stand in one
 * buffer, by what its messages say where they travel. pith_collective.h does so for its own. */
typedef struct pith_item {
    size_t size; /* the same in all items of a list */
    pith_stream *stream;
    uint64_t slot;
    pith_view view;     /* the values: read by encode, written by decode */
    void *frame;        /* written by encode, read by decode */
    size_t capacity;    /* encode: bytes that may be written to frame */
    size_t length;      /* of the frame: set by encode (0 on failure), given to decode */
    pith_status status; /* set by the call, unless it refuses its own arguments: flags, the list's
                           sizes, a work that is busy */
} pith_item;

enum {
    PITH_KEY_FRAME = 0x1, /* encode: key frames, the exact new base, from which a late joiner
                             starts. Only for streams with a base */
    PITH_ADD = 0x2,       /* decode: view += decoded */
    PITH_SAME_SET = 0x4,  /* encode, topk: the values of the set that the slot holds; the frame has
                             no indices (sparse.h) */
    PITH_HELD_SET = 0x8,  /* the same, with the set's indices, for receivers that do not hold it */
    PITH_SAME_BLOCKS = 0x10 /* encode, topk: no indices of blocks whose chosen set is the one that
                               the slot holds of them, for receivers that hold it (sparse.h) */
};

/* Encode one slot for each item and advance its stream: step + 1 and, with a base, base := what
 * receivers will hold. flags, for all of the list: 0, PITH_KEY_FRAME, or of codec topk one of
 * PITH_SAME_SET, PITH_HELD_SET and PITH_SAME_BLOCKS (sparse.h); items that want another are a list
 * of their own. The view's dtype is the layout's. PITH_ERR_ARG: an argument is NULL, or there is no
 * such slot; PITH_ERR_DTYPE, PITH_ERR_SHAPE: the view; PITH_ERR_SPACE: capacity is less than the
 * frame needs, or the work is too small; PITH_ERR_STATE: no base is bound, it is invalid, or the
 * slot holds no set to send; PITH_ERR_UNSUPPORTED: flags that the codec, or a stream without a
 * base, does not take.
 * An item that fails has length 0 and an unspecified frame; its stream is unchanged when the status
 * is one of the caller's arguments (-1..-19) or PITH_ERR_BUSY, but for one thing: where blocks of
 * topk find too little space (PITH_ERR_SPACE; pith_sizes.slot_bytes is enough for all but held
 * sets), pith_stream_rollback takes no earlier step of the slot back any more, and the slot may be
 * without its set (sparse.h). After others, but as PITH_ERR_BASE has it below, a slot's base is
 * invalid: see pith_decode.
 * With a base, capacity must be at least pith_plan_frame_bytes (of a key frame, for steps that
 * key_every=N makes one), also for a frame that turns out shorter; psnr and nmse make several
 * frames, of which the last may fit where an earlier one did not. Never writes past capacity. A
 * frame must overlap neither a view nor a stream (see Memory).
 * PITH_ERR_BASE: others have changed the base since the last call (PITH_LAYOUT_CHECK_BASE says when
 * that is looked for); there is no frame to send. Blocks are compared one by one, each before it is
 * written, so none that was found changed has been written to. The error's offset is the number in
 * the slot of the first such block. With one thread the blocks before it hold what receivers would
 * have held, and from it on all are as they were found; with several, blocks behind it may have
 * been written as well. Where none was written (always when every block is found changed), the
 * stream is as before: put the base back as it was and encode again. Else the slot is invalid. To
 * go on from either: PITH_KEY_FRAME, which looks at no base and after which all replicas hold the
 * values in the base dtype; or pith_stream_bind_base or _set_base, at every replica, with one base
 * and step. Key frames are never refused this way, nor are frames to decode: a receiver whose base
 * was changed takes the next frame and is refused the one after it. */
PITH_NODISCARD PITH_API pith_status pith_encode(pith_work *work, pith_item *items, size_t count,
                                                uint32_t flags);
/* Decode a frame for each item, which is compared with its slot as far as the frame says it (see
 * above: Whose frame it is). Bytes after the frame's end are ignored (a slot may be longer than its
 * frame). With a base: the frame must be the stream's next step for the slot and against the same
 * base (a key frame is always accepted); the stream's base is updated and the new base is written
 * to view, which may have dtype PITH_NONE: only the stream moves on. The view's dtype is the
 * layout's dtype or, for a float dtype of at most 32 bits and every codec but raw and lossless, any
 * of f32, bf16, f16; it overlaps neither frame nor base. A frame of topk without indices needs the
 * set that its encoder held: PITH_ERR_STATE where the slot holds none, PITH_ERR_BASE where it holds
 * another, before anything is written (sparse.h). PITH_ERR_ARG: an argument is NULL, or there is no
 * such slot; PITH_ERR_DTYPE, PITH_ERR_SHAPE: the view; PITH_ERR_STATE: no base is bound;
 * PITH_ERR_SPACE: the work is too small; what bytes that are no such frame answer, pith_verify has.
 * Before PITH_ERR_MISMATCH, _STEP, _BASE, _LIMIT and block checksum errors nothing is written. A
 * failure while the base is being written (damage in blocks without checksums, a key frame whose
 * content is not what it declares, a failing runner) leaves it invalid: the slot then answers
 * PITH_ERR_STATE until a key frame, pith_stream_load, _set_base, _bind_base or _reset.
 *
 * With PITH_ADD: view := view + decoded difference, rounded once to the view's dtype by the
 * sequence that decoding uses for its base. The stream says what is expected and does not change;
 * its own base and step are not looked at (one with an external base need have none bound). The
 * view is the base: its dtype must be the frame's base dtype, and its hash is computed and compared
 * first (one more read of it). A key frame replaces the view. Without a base: view + decoded value,
 * in f32, float dtypes only; elements that a frame of topk does not send are left alone. */
PITH_NODISCARD PITH_API pith_status pith_decode(pith_work *work, pith_item *items, size_t count,
                                                uint32_t flags);
/* The order in which an exchange inside nodes sends: slots[j * nodes + m] := m * per_node + j, the
 * slot of local rank j on node m where ranks are numbered node by node. With the arguments swapped:
 * for ranks numbered the other way. slots has nodes * per_node entries. */
PITH_API void pith_slot_order(uint64_t nodes, uint64_t per_node, uint64_t *slots);

/* A sum of frames of one slot: scale * (decode(frames[0]) + ... + decode(frames[count-1])), each
 * f32, added in that order, multiplied once (scale 0 stands for 1; 1 leaves the sum as it is). */
typedef struct pith_sum {
    size_t size;         /* the same in all sums of a list */
    pith_stream *stream; /* whose frames they are; it counts them, and nothing else changes */
    uint64_t slot;
    const void *const *frames; /* none overlaps what is written */
    const size_t *lengths;
    size_t count;
    float scale;
    pith_view view;     /* pith_reduce: where the sum goes. Not used by pith_reduce_encode */
    pith_status status; /* set by pith_reduce */
} pith_sum;

/* For each sum: view := sum, rounded once to the view's dtype (f32, bf16 or f16). Rotated frames
 * (grad) are added as they are coded, rotated back once, then multiplied. Frames without a base, of
 * fixed rate (raw, grad, kv) or of topk, only. All frames must be of the sum's slot, which is
 * compared as far as frames say it (see Whose frame it is). A NaN or infinity in any frame reaches
 * the sum, which may itself become infinite; NaN is canonical. Headers, checksums and the places of
 * blocks are checked in every frame before anything is written to the view; damage inside a block
 * of topk is found while it is summed. PITH_ERR_CORRUPT and PITH_ERR_MISMATCH, and of frames of
 * topk without indices PITH_ERR_STATE and PITH_ERR_BASE: as of pith_decode; PITH_ERR_UNSUPPORTED:
 * frames of the plan have no sum; PITH_ERR_DTYPE, PITH_ERR_SHAPE: the view; PITH_ERR_ARG: no
 * frames, or one that is NULL or overlaps the view; PITH_ERR_BUSY: another call uses the stream. */
PITH_NODISCARD PITH_API pith_status pith_reduce(pith_work *work, pith_sum *sums, size_t count);
/* The same sums, in f32, sum i encoded as item i (layout dtype f32, no base, the same element count
 * and exempt ranges in the slot; its view is not used) without writing the tensor in between. When
 * both plans rotate alike (rotate and sign_seed equal) the sum is coded as it is, without rotating
 * back and forth. The item's stream owns the residual and the steps of this second hop, and is
 * another than the sum's; item i has the status, of either side. Both sides take frames as
 * pith_reduce does, but none of kv (PITH_ERR_UNSUPPORTED); with topk the elements that are sent are
 * chosen from the sum, which is computed again for each look at it. The frame that is written
 * overlaps none of its sum (PITH_ERR_ARG), nor of other sums, which is not checked. PITH_ERR_ARG
 * too: one stream for both sides, or slots that differ in elements; other errors as pith_reduce has
 * them of the frames that are read, and pith_encode of the item. */
PITH_NODISCARD PITH_API pith_status pith_reduce_encode(pith_work *work, const pith_sum *sums,
                                                       pith_item *items, size_t count);

/* ---- Frames ---------------------------------------------------------------------------------*/
typedef struct pith_info {
    size_t size;
    uint64_t frame_bytes;  /* header and payload: where the next frame of a stream begins */
    uint64_t header_bytes; /* with sections */
    uint64_t count;        /* elements */
    uint64_t raw_bytes;    /* count * dtype bytes */
    uint64_t base_hash;
    uint64_t step;
    uint64_t shape[PITH_MAX_NDIM];
    uint32_t ndim;
    uint32_t dtype;
    uint32_t base_dtype; /* PITH_NONE: decodes without a base */
    uint32_t codec;      /* id */
    uint32_t revision;   /* of the codec: the least that has all that the setting asks for */
    uint32_t block_log2;
    uint32_t rng_stream; /* id of the random bits */
    uint8_t is_key, has_step, has_base_hash, has_checksums;
    const char *codec_name;   /* static */
    char spec[PITH_SPEC_MAX]; /* canonical; the keys that a frame records */
    const void *source;       /* pith_layout.source, inside the frame; NULL when absent */
    size_t source_bytes;
    uint64_t exempt; /* elements that go around the codec */
    /* PITH_TRAIT_BOUND: what holds for every finite value x and decoded x', before the latter is
     * rounded to another dtype. Non-finite values come back bit for bit. */
    double bound;          /* |x - x'| is at most this */
    double relative_bound; /* pwrel: |x - x'| / |x| is at most this, else 0 */
    /* Codec topk, else 0: */
    uint64_t sent;       /* elements that have values; all others decode to 0 */
    float threshold;     /* of their magnitudes, for information: any bits */
    uint32_t value_bits; /* of each value, without the scales of int8: 32, 16, 8 or 0 */
    uint32_t same_set;   /* 1: they are the set that the receiver holds (PITH_SAME_SET); 2: of some
                            blocks they are (PITH_SAME_BLOCKS) */
} pith_info;

/* Read and check a frame's header: constant work apart from the header checksum, no allocation,
 * any bytes. PITH_ERR_TRUNCATED with info->header_bytes set to the bytes needed when the header is
 * not whole. The payload is not touched and may be missing. error may be NULL. PITH_ERR_MAGIC,
 * _NEWER, _CORRUPT, _CHECKSUM: what the header is instead; PITH_ERR_ARG: bytes or info is NULL, or
 * info->size is not set. */
PITH_NODISCARD PITH_API pith_status pith_inspect(const void *bytes, size_t length, pith_info *info,
                                                 pith_error *error);
/* The largest distance between an encoded and its decoded value that the frame admits, before the
 * latter is rounded to a dtype of 16 bits (wdiff: of the difference, before rounding to the base
 * dtype); 0 for lossless frames and for key frames, which bring the new base itself.
 * NaN when a group is poisoned, or an exempt value infinite at 16 bits. Reads the scales, or what
 * entropy-coded blocks of codec kv state instead, and the exempt values; what these blocks state is
 * corrupt below 0, here as for decoders and for pith_verify. PITH_ERR_TRUNCATED: the payload is not
 * whole; PITH_ERR_CORRUPT, of blocks too; else as pith_inspect. error may be NULL. */
PITH_NODISCARD PITH_API pith_status pith_error_bound(const void *frame, size_t length,
                                                     double *bound, pith_error *error);
/* Check everything that can be checked without a base: structure, checksums, every block.
 * PITH_ERR_TRUNCATED, _CORRUPT, _CHECKSUM: what is wrong; PITH_ERR_LIMIT: the frame declares more
 * than env allows; PITH_ERR_MEMORY, PITH_ERR_RUNNER; else as pith_inspect. error may be NULL. */
PITH_NODISCARD PITH_API pith_status pith_verify(const void *frame, size_t length,
                                                const pith_env *env, pith_error *error);

/* ---- One-shot calls -------------------------------------------------------------------------
 * Without a stream; they allocate what they need through env and free it. base is NULL or a view
 * of the same count. A base is compared by its hash before anything is written. What is written
 * must not overlap what is read (see Memory). error may be NULL. */
/* Bound on pith_compress's output, in bytes, for the same arguments. The views' data is not used.
 * Errors: as pith_compress. */
PITH_NODISCARD PITH_API pith_status pith_compress_bound(const char *spec, const pith_view *view,
                                                        const pith_view *base,
                                                        const pith_layout *layout, uint64_t *bytes,
                                                        pith_error *error);
/* One frame of the view. layout gives flags, source and exempt ranges and may be NULL; its dtypes,
 * shape and slots are 0 or what the views say (else PITH_ERR_ARG). An ordinary frame, never a key
 * frame: key_every=N speaks of the steps of a stream. Without a base wdiff codes the values
 * themselves, which is no error and far less exact. *written: the frame's bytes; 0 on failure.
 * PITH_ERR_SPACE: cap is less; PITH_ERR_STATE: the spec has error feedback, which needs a stream;
 * PITH_ERR_SHAPE: view and base differ in count; else as pith_plan_create. */
PITH_NODISCARD PITH_API pith_status pith_compress(const char *spec, const pith_view *view,
                                                  const pith_view *base, const pith_layout *layout,
                                                  const pith_env *env, void *dst, size_t cap,
                                                  size_t *written, pith_error *error);
/* Decode a frame, in full, to a view of as many elements, whose shape may differ. PITH_ERR_SHAPE:
 * it has others; PITH_ERR_DTYPE: the frame does not decode to its dtype; PITH_ERR_BASE: the frame
 * needs a base, or another one; PITH_ERR_STATE: a frame of topk without indices, of which only a
 * stream knows the set (pith_info.same_set); else as pith_verify. */
PITH_NODISCARD PITH_API pith_status pith_decompress(const void *frame, size_t length,
                                                    const pith_view *base, const pith_env *env,
                                                    const pith_view *view, pith_error *error);
/* Elements [first, first + view count) of the tensor taken flat; view is that range, base (when
 * the frame has one) is the whole base. Work is proportional to the blocks touched; the hash
 * of the base, and with checksums the exempt values, are checked over all of them. PITH_ERR_SHAPE:
 * the range is not inside the tensor; else as pith_decompress. */
PITH_NODISCARD PITH_API pith_status pith_decode_range(const void *frame, size_t length,
                                                      const pith_view *base, uint64_t first,
                                                      const pith_env *env, const pith_view *view,
                                                      pith_error *error);

#ifdef __cplusplus
}
#endif

#include "pith/bounds.h"
#include "pith/kv.h"
#include "pith/sparse.h"

#endif
