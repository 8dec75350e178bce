/* io.h - files in, files out, and large memory; nothing is left behind after a failure.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef PITH_CLI_IO_H
#define PITH_CLI_IO_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sees to it that SIGINT, SIGPIPE and whatever else ends a program clean up, that SIGXFSZ becomes a
 * write error, and that descriptors 0 to 2 are not given to files. Call once, first. */
void io_begin(void);

/* ---- Input: parts of a file, mapped. What cannot be mapped (a pipe, a device) is copied to an
 * unnamed temporary file, and no further than was requested, since it may never end. All functions
 * that fail say why on stderr. ---- */
enum { INPUT_HEAD = 4096 };
struct input {
    const char *path;
    int fd;
    int stream;           /* what fd is copied from; -1: nothing more comes */
    uint64_t most;        /* bytes of a stream that may be copied */
    uint64_t length;      /* bytes of the file; of a stream, of what was copied */
    unsigned mode;        /* permission bits that an output made from it may have */
    const uint8_t *bytes; /* the first `mapped` bytes; never NULL */
    size_t mapped;
};
/* Limits what a stream may fill of the temporary folder. 0, as without a call, means half of what
 * is free there. */
void input_limit(uint64_t bytes);
/* Maps the first INPUT_HEAD bytes, or all of a shorter file. */
bool input_open(struct input *in, const char *path);
/* Maps the first `bytes` bytes instead, or all of a shorter file. */
bool input_extend(struct input *in, uint64_t bytes);
/* Takes what the format says a file has, and a byte more where there is one: afterwards length is
 * that of the file, or larger than `bytes`. */
bool input_expect(struct input *in, uint64_t bytes);
void input_close(struct input *in);

/* A mapping shows one part of a file at a time, so that memory is bounded by tensors, not by
 * files. */
struct mapping {
    void *map;
    size_t length;
};
/* Returns the bytes at the offset, which the file has, until the next call with this mapping. NULL
 * on failure. */
const uint8_t *map_part(struct mapping *w, const struct input *in, uint64_t offset, uint64_t bytes);
void unmap_part(struct mapping *w);

/* ---- Output: a file without a name, which it gets at the end; or a stream. Where the system has
 * no such files, one with a temporary name beside the target, locked while the program runs: what
 * is found there without a lock was left by one that was killed, and is removed. ---*/
struct output {
    const char *path;
    int fd;
    bool file;    /* fd is to get the name path */
    int target;   /* where a stream goes that is collected behind fd first; else -1 */
    bool rewinds; /* output_rewrite was promised: a stream is collected */
    bool replace;
    unsigned mode;
    uint64_t written;
};
/* Opens an output. force: replace an existing file, and write binary data to a terminal. mode: the
 * most permission bits a new file gets; it gets none that umask forbids. Returns an exit code. */
int output_open(struct output *out, const char *path, bool force, bool rewinds, unsigned mode);
/* Whether the path of an output leads to the regular file that is open as fd. */
bool output_same_file(const char *path, int fd);
/* The same of the regular file that another path leads to. */
bool output_same_path(const char *path, const char *other);
/* Whether path is a name of standard output, or of the file or pipe that it is. */
bool output_is_stdout(const char *path);
bool output_write(struct output *out, const void *bytes, size_t length);
/* Writes at an offset already passed. */
bool output_rewrite(struct output *out, uint64_t offset, const void *bytes, size_t length);
/* Makes the file last and gives it its name. */
bool output_commit(struct output *out);
void output_abandon(struct output *out);

/* ---- Scratch: memory for one tensor; a mapped unnamed file when it is large against the
 * machine's memory. It grows and is used again; its contents do not survive growth. ---- */
struct scratch {
    uint8_t *bytes;
    size_t capacity;
    bool mapped;
};
bool scratch_reserve(struct scratch *s, uint64_t bytes);
void scratch_free(struct scratch *s);

/* Flushes stdout; false (said on stderr) when anything written there was lost. */
bool stdout_finish(void);

/* Opens an unnamed temporary file for reading and writing; -1 with errno. */
int temporary_file(void);
/* Opens a file that was never named, so that nothing is left however the program ends; named_later:
 * it can get a name. -1 with errno where the system or the folder has no such files. */
int unnamed_file(const char *place, bool named_later);
/* Returns the folder of the last temporary file, made or not, for messages. */
const char *temporary_folder(void);
/* Says by errno why the subject cannot be in a temporary file; returns EXIT_FAILED. */
int say_temporary(const char *subject);
/* Returns half of the space that is free where this file is. */
uint64_t temporary_capacity(int fd);
/* Waits after a read or write that failed. True when it may be tried again, which for a descriptor
 * that does not block is when it is ready; false with errno as it was. */
bool wait_for(int fd, short events);
/* Writes everything or fails with errno. */
bool write_all(int fd, const void *bytes, size_t length);

#endif
