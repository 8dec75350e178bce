/* main.c - the pith command line: finds the command and prints help.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "pith/version.h"

static const struct command commands[] = {
    {"compress", "makes a compressed file of a .npy, .safetensors or raw file",
     "compress [-C SPEC] [--base FILE] [--rule 'GLOB=SPEC']... [--dtype D --shape 4x1024]\n"
     "                     [-T N] [-o OUT] [-f] [-q|-v] [--json] IN",
     "Compresses a .npy, .safetensors or raw file to OUT (IN.pith, or IN.pith.safetensors for a\n"
     ".safetensors file). Nothing is lost unless -C or --rule names a lossy codec.\n\n"
     "  -C SPEC             codec; a lossy one is for float tensors, of a .safetensors file for\n"
     "                      those of two or more dimensions\n"
     "  --rule 'GLOB=SPEC'  codec for the tensors whose name matches; the first match counts\n"
     "  --base FILE         code against this file, tensor by tensor of the same name\n"
     "  --dtype D           dtype of raw bytes, or of a .npy file's unsigned or void items\n"
     "  --shape 4x1024      shape of raw bytes\n"
     "  -T N                threads; 0: one per processor\n"
     "  -o OUT              output; - is standard output\n"
     "  -f                  overwrite OUT; compress what is compressed already\n"
     "  -q, -v              say little; print a table of tensors\n"
     "  --json              print what inspect --json prints\n"
     "  --max-spool BYTES   most bytes of a pipe to copy to the temporary folder (suffixes K M "
     "G);\n"
     "                      default: half of what is free there\n"
     "  --cpu LEVEL         scalar, avx2, avx512 or neon; changes no byte\n",
     "CbrdsToqvfjcp", 1, 1, run_compress},
    {"decompress", "restores the file that was compressed",
     "decompress [--base FILE] [--max-output BYTES] [-T N] [-o OUT] [-f] [-q] IN",
     "Restores the file that was compressed.\n\n"
     "  --base FILE         the base it was compressed against\n"
     "  --max-output BYTES  refuse tensors larger together (suffixes K M G); default: the larger\n"
     "                      of 1G and 1000 times the size of IN\n"
     "  --max-spool BYTES   most bytes of a pipe to copy to the temporary folder (suffixes K M "
     "G);\n"
     "                      default: half of what is free there\n"
     "  -T N                threads; 0: one per processor\n"
     "  -o OUT              output; - is standard output; default: IN without .pith\n"
     "  -f                  overwrite OUT\n"
     "  -q                  say nothing\n"
     "  --cpu LEVEL         scalar, avx2, avx512 or neon; changes no byte\n",
     "bxTofqcp", 1, 1, run_decompress},
    {"inspect", "lists the tensors of a compressed file", "inspect [--json] FILE",
     "Lists the tensors of a compressed file: codec, sizes, bits per value, error bound.\n\n"
     "  --json             machine-readable\n"
     "  --max-spool BYTES  most bytes of a pipe to copy; default: half of what is free\n",
     "jp", 1, 1, run_inspect},
    {"test", "checks every checksum of a compressed file",
     "test [--base FILE] [--max-output BYTES] [-T N] [-q] FILE",
     "Checks every checksum and every block of a compressed file; with its base, decodes it.\n"
     "Exits 3 when nothing is wrong but tensors need a base that was not given.\n\n"
     "  --base FILE         the base it was compressed against\n"
     "  --max-output BYTES  refuse tensors larger together (suffixes K M G); default: the larger\n"
     "                      of 1G and 1000 times the size of FILE\n"
     "  --max-spool BYTES   most bytes of a pipe to copy to the temporary folder (suffixes K M "
     "G);\n"
     "                      default: half of what is free there\n"
     "  -T N                threads; 0: one per processor\n"
     "  -q                  say nothing when the file is good\n"
     "  --cpu LEVEL         scalar, avx2, avx512 or neon; changes no verdict\n",
     "bxTqcp", 1, 1, run_test},
    {"codecs", "lists the codecs and their keys", "codecs [--json] [CODEC]",
     "Lists the codecs, or one, and their keys with the default in brackets.\n\n"
     "  --json   machine-readable\n",
     "j", 0, 1, run_codecs},
    {"compare", "compares two tensor files, number by number",
     "compare [--json] [--max-abs E] [--dtype D [--shape 4x1024]] A B",
     "Compares two tensor files; A is the reference. Exits 0 even when they differ.\n\n"
     "  --max-abs E      exit 1 when an error is larger than E, or a non-finite value differs\n"
     "  --dtype D        dtype of raw bytes, or of a .npy file's unsigned or void items\n"
     "  --shape 4x1024   shape of raw bytes\n"
     "  --max-spool BYTES\n"
     "                   most bytes of a pipe to copy; default: half of what is free\n"
     "  --json           machine-readable\n",
     "jmdsp", 2, 2, run_compare},
    {"bench", "measures codecs on this machine",
     "bench [-C SPEC]... [-T N] [--json] [--quick] [FILE]",
     "Measures every codec, and its variants group=128 and round=stochastic where it has them,\n"
     "encoding and decoding weights in memory, larger than the caches, in two minutes:\n"
     "f32 values, and for codecs of differences also the steps of a stream with an f32 and a\n"
     "bf16 base. Reading, filling, copying and moving the same bytes without any codec are\n"
     "measured in turn with it, on one thread; shares are of these. The numbers are medians of\n"
     "7 repetitions, fewer where a row takes too long; every result is verified.\n\n"
     "Columns: codec; value and base, their dtypes; ratio, bytes of the values to those of the\n"
     "frame; encode, decode and memcpy, GB/s of values; encode's /read, its share of the speed of\n"
     "reading them; decode's /fill, of writing them; /move of each, of moving the bytes that it\n"
     "reads and writes; of, repetitions.\n\n"
     "  -C SPEC       a codec to measure; default: all of them\n"
     "  -T N          threads; 0: one per processor\n"
     "  --quick       small data and few repetitions: a check, not a measurement\n"
     "  --cpu LEVEL   scalar, avx2, avx512 or neon\n"
     "  --max-spool BYTES\n"
     "                most bytes of a pipe to copy; default: half of what is free\n"
     "  --json        machine-readable\n",
     "CTjkcp", 0, 1, run_bench},
    {"advise", "says what compressing gradients would win on a machine",
     "advise --ranks N --links IN,ACROSS --size BYTES [--ranks-per-node R]\n"
     "                     [--compute S] [--overlap F] [--latency IN,ACROSS]\n"
     "                     [--codec-speed ENC,DEC] [--levels 1|2] [--cores N]\n"
     "                     [--transport SEND,COPY] [-T N] [--json]",
     "Says by a model how long a training step takes in which gradients are summed plainly or\n"
     "through codec grad, and which to take. doc/SCALE.md has the model and its limits.\n\n"
     "  --ranks N             in all\n"
     "  --ranks-per-node R    nodes of equal size; default: 1\n"
     "  --links IN,ACROSS     bits per second: of a rank to those of its node, of a node to\n"
     "                        others; one number for both, such as 100G, 100Gbit/s, 100Gbps, or\n"
     "                        12.5GB/s; suffixes k M G T are powers of 1000 here and below\n"
     "  --latency IN,ACROSS   seconds of a message, such as 5e-6 or 5us; default: 0\n"
     "  --size BYTES          gradients as f32, in all, such as 5.2G or 5.2GB\n"
     "  --compute S           seconds of a step without communication, or 350ms; default: 0\n"
     "  --overlap F           the part of these behind which sums may hide, 0 to 1; default: 0\n"
     "  --codec-speed ENC,DEC bytes of f32 per second, encoding, and decoding or adding, such as\n"
     "                        300G or 300GB/s; default: measured here, in a second\n"
     "  --levels 1|2          1: all ranks sum together, as gloo does; 2: first those of a node;\n"
     "                        default: 2\n"
     "  --cores N             cores of a node, which its ranks share; default: one for each rank\n"
     "  --transport SEND,COPY bytes per second of a core, of messages, sent and received, and of\n"
     "                        gradients, copied to what is sent and back; default: no time\n"
     "  -T N                  threads that are measured; 0: one per processor\n"
     "  --cpu LEVEL           scalar, avx2, avx512 or neon\n"
     "  --json                machine-readable\n",
     "RNLlSuOEVPWTjc", 0, 0, run_advise},
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static void print_usage(FILE *to) {
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(to, "%s pith %s\n", i ? "      " : "usage:", commands[i].synopsis);
    fputs("       pith --help | --version | help COMMAND | COMMAND --help\n", to);
}

static void print_overview(void) {
    puts("pith compresses tensors: .npy, .safetensors and raw bytes.\n");
    print_usage(stdout);
    putchar('\n');
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-12s%s\n", commands[i].name, commands[i].summary);
    puts(
        "\n'pith COMMAND --help' explains the options, 'man pith' everything.\n"
        "Exit status: 0 good, 1 a file failed, 2 usage, 3 not checked (test): needs its base.");
}

static void print_help(const struct command *command) {
    printf("usage: pith %s\n\n%s", command->synopsis, command->help);
}

static const struct command *find(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static int run(const struct command *command, int count, char **arguments) {
    struct options options;
    int code = options_parse(&options, command, count, arguments);
    if (code == EXIT_USAGE) fprintf(stderr, "usage: pith %s\n", command->synopsis);
    input_limit(options.max_spool);
    if (code == EXIT_GOOD && options.help)
        print_help(command);
    else if (code == EXIT_GOOD)
        code = command->run(&options);
    options_free(&options);
    return code;
}

static int unknown_command(const char *name) {
    say_error(NULL, "unknown command '%s'", name);
    print_usage(stderr);
    return EXIT_USAGE;
}

/* Explains the command of this name; NULL: gives the overview. */
static int explain(const char *name) {
    const struct command *command = name ? find(name) : NULL;
    if (name && !command) return unknown_command(name);
    if (command)
        print_help(command);
    else
        print_overview();
    return EXIT_GOOD;
}

static int unexpected(const char *argument) {
    say_error(NULL, "unexpected argument '%s'", argument);
    print_usage(stderr);
    return EXIT_USAGE;
}

/* Runs what is not a command. more are the arguments after the word, with a NULL behind them. */
static int run_global(const char *word, char **more) {
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
        return more[0] && more[1] ? unexpected(more[1]) : explain(more[0]);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        if (more[0]) return unexpected(more[0]);
        printf("pith %d.%d.%d, frame format %u\n", PITH_VERSION_MAJOR, PITH_VERSION_MINOR,
               PITH_VERSION_PATCH, (unsigned)pith_format_version());
        return EXIT_GOOD;
    }
    return unknown_command(word);
}

int main(int count, char **arguments) {
    io_begin();
    if (count < 2) {
        print_usage(stderr);
        return EXIT_USAGE;
    }
    const struct command *command = find(arguments[1]);
    int code =
        command ? run(command, count - 1, arguments + 1) : run_global(arguments[1], arguments + 2);
    if (!stdout_finish() && code == EXIT_GOOD) code = EXIT_FAILED;
    return code;
}
