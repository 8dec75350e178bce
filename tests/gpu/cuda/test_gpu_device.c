/* test_gpu_device.c - which device is current, which there are, and errors that stay behind.
 * SPDX-License-Identifier: Apache-2.0 */
#include "cuda_only.h"

enum { COUNT = 5000, NOWHERE = 4096 };

static int devices(void) {
    int count;
    CUDA_OK(cudaGetDeviceCount(&count));
    return count;
}

/* The runtime keeps the last failure for whoever asks next: a call must take its own away. */
static void check_clean(int current) {
    int device;
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    CUDA_OK(cudaGetDevice(&device));
    CHECK(device == current);
}

static void test_available(void **state) {
    (void)state;
    pith_error error = {.size = sizeof error};
    CUDA_OK(cudaSetDevice(0));
    for (int i = 0; i < devices(); i++) CHECK_OK(pith_cuda_available(i, &error));
    const int wrong[] = {devices(), NOWHERE, -1};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        context("device %d", wrong[i]);
        CHECK_STATUS(PITH_ERR_DEVICE, pith_cuda_available(wrong[i], &error));
        CHECK(error.text[0] && error.offset != 0);
        CHECK_STATUS(PITH_ERR_DEVICE, pith_cuda_available(wrong[i], NULL));
        check_clean(0);
    }
}

static void test_plan_nowhere(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    const pith_cuda_plan *cuda = (const pith_cuda_plan *)(void *)&cuda;
    pith_cuda_sizes sizes = {.size = sizeof sizes};
    pith_error error = {.size = sizeof error};
    struct stream s;
    stream_open(&s, "grad", &layout, NULL);
    CHECK_OK(pith_cuda_plan_sizes(s.plan, &sizes, NULL));
    void *const memory = device_alloc((size_t)sizes.plan_bytes);
    CHECK_STATUS(PITH_ERR_DEVICE,
                 pith_cuda_plan_create(&cuda, s.plan, NULL, NOWHERE, memory,
                                       (size_t)sizes.plan_bytes, device_stream(), &error));
    CHECK(!cuda && error.text[0]);
    check_clean(0);
    device_free(memory);
    stream_close(&s);
}

static size_t padded(uint64_t bytes) { return ((size_t)bytes + 255) & ~(size_t)255; }

/* A plan on `device` works while `current` is another, on memory and a CUDA stream of its own
 * device. */
static void works_from(int device, int current) {
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    const pith_cuda_plan *cuda;
    pith_cuda_sizes sizes = {.size = sizeof sizes};
    struct stream s;
    cudaStream_t on;
    uint8_t *memory, got[COUNT * sizeof(float)];
    float values[COUNT];
    int32_t status;
    const pith_view view = pith_view_flat(values, PITH_F32, COUNT);
    gen_fill(GEN_NOISE, 3, PITH_F32, values, COUNT);
    stream_open(&s, "grad", &layout, NULL);
    struct frame frame = stream_encode(&s, &view, 0, false);
    CHECK_OK(pith_cuda_plan_sizes(s.plan, &sizes, NULL));
    const size_t plan_bytes = padded(sizes.plan_bytes), stream_bytes = padded(sizes.stream_bytes);
    const size_t value_bytes = sizeof values;
    CUDA_OK(cudaSetDevice(device));
    CUDA_OK(cudaStreamCreateWithFlags(&on, cudaStreamNonBlocking));
    CUDA_OK(cudaMalloc((void **)&memory, plan_bytes + stream_bytes + 2 * value_bytes + 256));
    uint8_t *const stream = memory + plan_bytes, *const there = stream + stream_bytes;
    CUDA_OK(cudaMemcpyAsync(there, values, sizeof values, cudaMemcpyHostToDevice, on));
    CUDA_OK(cudaSetDevice(current));
    CHECK_OK(pith_cuda_plan_create(&cuda, s.plan, NULL, device, memory, plan_bytes, on, NULL));
    check_clean(current);
    CHECK_OK(pith_cuda_stream_init(cuda, stream, stream_bytes, NULL, on, NULL));
    check_clean(current);
    const pith_cuda_items items = {.size = sizeof items,
                                   .count = 1,
                                   .dtype = PITH_F32,
                                   .tensor = there,
                                   .frame = there + value_bytes,
                                   .capacity = frame.length,
                                   .status = (int32_t *)(void *)(there + 2 * value_bytes)};
    CHECK_OK(pith_cuda_encode(cuda, (pith_cuda_stream *)(void *)stream, &items, 0, on, NULL));
    check_clean(current);
    CUDA_OK(cudaStreamSynchronize(on));
    CUDA_OK(cudaMemcpy(got, items.frame, frame.length, cudaMemcpyDeviceToHost));
    CUDA_OK(cudaMemcpy(&status, items.status, sizeof status, cudaMemcpyDeviceToHost));
    CHECK_OK((pith_status)status);
    CHECK(memcmp(got, frame.bytes, frame.length) == 0);
    pith_cuda_plan_destroy(cuda);
    CUDA_OK(cudaStreamDestroy(on));
    CUDA_OK(cudaFree(memory));
    free(frame.bytes);
    stream_close(&s);
}

static void test_current(void **state) {
    (void)state;
    const int count = devices();
    works_from(0, 0);
    for (int i = 1; i < count; i++) {
        context("device %d", i);
        works_from(i, 0);
        works_from(0, i);
    }
    CUDA_OK(cudaSetDevice(0));
}

/* Arguments that are refused leave CUDA alone: an open capture goes on. */
static void test_refused(void **state) {
    (void)state;
    const pith_layout layout = flat_layout(PITH_F32, PITH_NONE, COUNT);
    struct rig r;
    struct job j;
    CHECK(rig_open(&r, "grad", &layout));
    job_open(&j, &r, 1, 1, PITH_F32, 0);
    pith_cuda_items items = j.items;
    items.status = NULL;
    capture_begin(device_stream());
    CHECK_STATUS(PITH_ERR_ARG,
                 pith_cuda_encode(r.plan, r.stream, &items, 0, device_stream(), NULL));
    CHECK_OK(pith_cuda_encode(r.plan, r.stream, &j.items, 0, device_stream(), NULL));
    const cudaGraphExec_t exec = capture_end(device_stream());
    check_clean(0);
    replay(exec, device_stream());
    job_pull(&j);
    CHECK_OK(job_status(&j, 0));
    CUDA_OK(cudaGraphExecDestroy(exec));
    job_close(&j);
    rig_close(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_available),
        cmocka_unit_test(test_plan_nowhere),
        cmocka_unit_test(test_current),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests_name("gpu_device", tests, NULL, NULL);
}
