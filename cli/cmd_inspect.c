/* cmd_inspect.c - pith inspect: what a compressed file holds.
 * SPDX-License-Identifier: Apache-2.0 */
#include "options.h"
#include "packed.h"
#include "report.h"

static int inspect_item(struct packed *p, size_t index, struct report *report) {
    struct packed_item item;
    pith_error error = {.size = sizeof error};
    double bound = 0;
    const int code = packed_item(p, index, &item);
    if (code != EXIT_GOOD) return code;
    const pith_status status = pith_error_bound(item.frame, item.bytes, &bound, &error);
    if (status != PITH_OK) return say_status(p->in.path, item.name, status, &error);
    report_add(report, item.name, &item.info, bound, 0);
    return EXIT_GOOD;
}

int run_inspect(const struct options *options) {
    struct packed p;
    struct report report;
    int code = packed_open(&p, options->operands[0]);
    if (code != EXIT_GOOD) return code;
    report_begin(&report, options->json, false);
    for (size_t i = 0; i < p.count && code == EXIT_GOOD; i++) code = inspect_item(&p, i, &report);
    if (code == EXIT_GOOD)
        report_end(&report, stdout, p.in.length);
    else
        report_free(&report);
    packed_close(&p);
    return code;
}
