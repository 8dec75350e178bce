/* count_plugin.c - a plugin of qemu-user that counts instructions between calls of sched_yield.
 * SPDX-License-Identifier: Apache-2.0
 *
 * qemu-aarch64 -plugin PLUGIN PROGRAM: at each such call a line on stderr, with how many
 * instructions the program has executed before it. Few distributions have the header of the
 * interface, version 1, so that what is used of it is declared here. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* ---- The interface ---------------------------------------------------------------------------*/

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb; /* instructions that are translated, and executed, together */
struct qemu_info_t;
enum { NO_REGISTERS = 0 }; /* flags of a callback: it looks at none */

#define PLUGIN_API __attribute__((visibility("default")))
extern PLUGIN_API int qemu_plugin_version;
PLUGIN_API int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc,
                                   char **argv);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
                                           void (*translated)(qemu_plugin_id_t id,
                                                              struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
                                          void (*executed)(unsigned cpu, void *user), int flags,
                                          void *user);
void qemu_plugin_register_vcpu_syscall_cb(qemu_plugin_id_t id,
                                          void (*called)(qemu_plugin_id_t id, unsigned cpu,
                                                         int64_t number, uint64_t a1, uint64_t a2,
                                                         uint64_t a3, uint64_t a4, uint64_t a5,
                                                         uint64_t a6, uint64_t a7, uint64_t a8));

int qemu_plugin_version = 1;

/* ---- Counting, of one thread -----------------------------------------------------------------*/

enum { SCHED_YIELD = 124 }; /* its number on aarch64 */

static uint64_t count;

static void executed(unsigned cpu, void *instructions) {
    (void)cpu;
    count += (uintptr_t)instructions;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb) {
    (void)id;
    const uintptr_t instructions = qemu_plugin_tb_n_insns(tb);
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, NO_REGISTERS, (void *)instructions);
}

static void called(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t a1, uint64_t a2,
                   uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8) {
    (void)id, (void)cpu, (void)a1, (void)a2, (void)a3, (void)a4, (void)a5, (void)a6, (void)a7;
    (void)a8;
    if (number == SCHED_YIELD) fprintf(stderr, "%llu\n", (unsigned long long)count);
}

int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc,
                        char **argv) {
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    return 0;
}
