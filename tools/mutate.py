#!/usr/bin/env python3
"""Change the sources one line at a time and see whether a test notices.

SPDX-License-Identifier: Apache-2.0

    ./dev mutate [N] [--seed=S] [--jobs=J] [PLACE...]   N mutants (30) of files in PLACEs
    ./dev mutate --again [--jobs=J] [PLACE...]          those that survived, with today's tests
    ./dev mutate --list [PLACE...]                      what is known, nothing is run

A mutant is one line of codec/, cli/ or adapters/ changed by a rule of universalmutator. Sources
are changed in copies of the tree, build-mutate/1 and so on, one for each job; the working tree is
only read. A mutant that does not compile, or whose object code is that of the original, is passed
over. Of the others the tests are run that a change there could fail, the quick ones and those
first that killed mutants of the same file, up to the first that fails or takes too long.

The order of mutants follows from the seed alone, as long as their lines stay the same. Verdicts
are kept in build-mutate/results.jsonl: the same seed again goes on where it was stopped.
Survivors that change nothing are written down in tests/mutants.txt, with the reason; they are not
run again. The exit status is 1 when there are other survivors.

Not changed: files for instruction sets and their templates, which kernelcheck
compares with scalar C, and headers that more than 12 objects include.
"""
import collections
import contextlib
import filecmp
import hashlib
import io
import json
import os
import queue
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDER = os.path.join(ROOT, "build-mutate")
RESULTS = os.path.join(FOLDER, "results.jsonl")
TIMES = os.path.join(FOLDER, "times.json")
KNOWN = os.path.join(ROOT, "tests", "mutants.txt")
PLACES = ("codec/", "cli/", "adapters/")
EXCEPT = ("_avx2.", "_avx512.", "_neon.", "_tmpl.h", "/tests/", "/examples/")
# A change in a place can fail these suites; kernels are compared with scalar C, which is in codec/.
SUITES = {"codec/": ("unit", "golden", "quality", "cli", "kernel", "gpu-host", "fuzz"),
          "cli/": ("cli", "fuzz"),
          "adapters/collective/": ("collective",), "adapters/mpi/": ("mpi",),
          "adapters/svd/": ("unit",)}
OBJECTS_MOST = 12
RULES = ["universal.rules", "c_like.rules"]
OPTIONS = ["--buildtype=plain", "--optimization=2", "-Ddebug=false", "-Dtests=true",
           "-Dbench=false", "-Dcli=enabled", "-Dcuda=disabled", "-Dfuzz=replay",
           "-Dc_args=-Werror=return-type"] # what such a function answers is chance
# What a mutant may take: it may loop for ever, or fill memory or disk.
LIMITS = {resource.RLIMIT_AS: 16 << 30, resource.RLIMIT_FSIZE: 4 << 30, resource.RLIMIT_CORE: 0}

Mutant = collections.namedtuple("Mutant", "file line old new nth")


def key_of(m):
    """What a mutant is known by: lines move. nth: among equal lines of the file."""
    return (m.file, m.old.strip(), m.new.strip(), m.nth)


def rank(*words):
    return hashlib.sha256("\0".join(map(str, words)).encode()).hexdigest()


def git_files():
    text = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT,
                          check=True, stdout=subprocess.PIPE).stdout.decode()
    return [f for f in text.split("\0") if f and os.path.isfile(os.path.join(ROOT, f))]


def differ(a, b):
    return not os.path.exists(b) or not filecmp.cmp(a, b, shallow=False)


# ---- What is known ------------------------------------------------------------------------------

def read_results():
    """The latest verdict on every mutant."""
    found = {}
    if os.path.exists(RESULTS):
        for line in open(RESULTS):
            r = json.loads(line)
            found[key_of(Mutant(r["file"], r["line"], r["old"], r["new"], r["nth"]))] = r
    return found


def read_known():
    """Mutants that change nothing: blocks of a path, - and + lines, and = lines that say why."""
    known, path, old, new = set(), None, None, None
    if not os.path.exists(KNOWN):
        return known
    for line in open(KNOWN):
        line = line.rstrip("\n")
        if line.startswith("- "):
            old = line[2:].strip()
        elif line.startswith("+ "):
            new = line[2:].strip()
            known.add((path, old, new))
        elif line and not line.startswith(("#", "=")):
            path = line.strip()
    return known


# ---- Mutants ------------------------------------------------------------------------------------

def mutants_of(file, text):
    """{line number: mutants of the line}."""
    from universalmutator import mutator
    lines = text.splitlines(keepends=True)
    with contextlib.redirect_stdout(io.StringIO()):
        made = mutator.mutants_regexp(lines, RULES, ignorePatterns=[r"^\s*#"],
                                      ignoreStringOnly=True)
    found, nth, seen = {}, {}, collections.Counter()
    for number, line in enumerate(lines, 1):
        nth[number] = seen[line.strip()]
        seen[line.strip()] += 1
    for number, new, _, _ in made:
        new, old = new.strip(), lines[number - 1].strip()
        # A jump put behind every line says little about the line.
        if "\n" not in new and "".join(new.split()) != "".join(old.split()):
            found.setdefault(number, []).append(Mutant(file, number, old, new, nth[number]))
    return found


def draw(source, files, seed):
    """One mutant of every line, in an order that other lines do not change."""
    chosen = []
    for file in files:
        text = open(os.path.join(source, file)).read()
        for number, some in mutants_of(file, text).items():
            best = min(some, key=lambda m: rank(seed, *key_of(m)))
            chosen.append((rank(seed, best.file, best.old, best.nth), best))
    return [m for _, m in sorted(chosen)]


# ---- Copies of the tree -------------------------------------------------------------------------

class Tree:
    """A copy of the sources, its build folder, and the tests that can be run there."""

    def __init__(self, number):
        self.source = os.path.join(FOLDER, str(number))
        self.build = os.path.join(self.source, "build")
        self.temporary = os.path.join(self.source, "build-tmp")
        self.process = None

    def ninja(self, *targets):
        return subprocess.run(["ninja", "-C", self.build, "-j2", *targets],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def meson(self, *words):
        out = subprocess.run(["meson", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if out.returncode:
            sys.exit("mutate: " + out.stdout.decode(errors="replace"))
        return out.stdout

    def introspect(self, what):
        return json.loads(subprocess.run(["meson", "introspect", what, self.build], check=True,
                                         stdout=subprocess.PIPE).stdout)

    def sync(self, files):
        """Make the copy what the working tree is; a hash of it."""
        total = hashlib.sha256()
        for f in files:
            at, to = os.path.join(ROOT, f), os.path.join(self.source, f)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            if differ(at, to):
                shutil.copy(at, to)
                os.utime(to)
            if f.startswith(("doc/", "tools/")) or at == KNOWN:
                continue
            total.update(f.encode() + b"\0" + open(at, "rb").read())
        old = os.path.join(self.source, "build-files")
        if os.path.exists(old):
            for f in set(open(old).read().split("\n")) - set(files):
                with contextlib.suppress(FileNotFoundError):
                    os.remove(os.path.join(self.source, f))
        open(old, "w").write("\n".join(files))
        return total.hexdigest()

    def prepare(self):
        if not os.path.exists(os.path.join(self.build, "build.ninja")):
            self.meson("setup", self.build, self.source, *OPTIONS)
        self.ninja("build.ninja")
        suites = {suite for some in SUITES.values() for suite in some}
        names = {t["id"]: t["filename"] for t in self.introspect("--targets")}
        self.tests, targets = {}, set()
        for test in self.introspect("--tests"):
            test["suites"] = {s.split(":")[-1] for s in test["suite"]}
            if test["suites"] & suites and not test["suites"] & {"slow", "form"}:
                self.tests[test["name"]] = test
                for id_ in test["depends"]:
                    targets.update(os.path.relpath(f, self.build) for f in names[id_])
        self.targets = sorted(targets)
        out = self.ninja(*self.targets)
        if out.returncode:
            sys.exit("mutate: the build failed\n" + out.stdout.decode(errors="replace")[-4000:])
        self.objects = collections.defaultdict(set)
        text = subprocess.run(["ninja", "-C", self.build, "-t", "deps"], check=True,
                              stdout=subprocess.PIPE).stdout.decode()
        for line in text.split("\n"):
            if line.startswith("    "):
                path = os.path.normpath(os.path.join(self.build, line.strip()))
                self.objects[os.path.relpath(path, self.source)].add(made)
            elif ": #deps" in line:
                made = line.split(": #deps")[0]

    def object_bytes(self, file):
        return [open(os.path.join(self.build, o), "rb").read() for o in sorted(self.objects[file])]

    def stop(self):
        """End the test with all that it started: its session, in which there may be more groups."""
        for _ in range(2 if self.process else 0): # again for what was started meanwhile
            for entry in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError):
                    text = open("/proc/%s/stat" % entry).read()
                    if int(text.rsplit(")", 1)[1].split()[3]) == self.process.pid:
                        os.kill(int(entry), signal.SIGKILL)

    def run(self, test, seconds):
        """None, or what became of the test: its status, or that it took too long."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        os.makedirs(self.temporary)

        def limit():
            for what, most in LIMITS.items():
                resource.setrlimit(what, (most, resource.getrlimit(what)[1]))

        env = {**os.environ, **test["env"], "TMPDIR": self.temporary}
        process = subprocess.Popen(test["cmd"], cwd=test["workdir"] or self.build, env=env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=limit)
        self.process = process
        try:
            status = process.wait(seconds)
        except subprocess.TimeoutExpired:
            status = "too long"
        self.stop()
        process.wait()
        return status if status not in (0, 77) else None

    def tests_for(self, file):
        suites = next(s for place, s in SUITES.items() if file.startswith(place))
        return [n for n, t in self.tests.items() if t["suites"] & set(suites) and
                (n == "svd" or not file.startswith("adapters/svd/"))]

    def judge(self, m, kills, times):
        """(verdict, test): invalid, same, killed or survived."""
        path = os.path.join(self.source, m.file)
        lines = open(path).read().splitlines(keepends=True)
        before = self.object_bytes(m.file)
        blank = lines[m.line - 1][:len(lines[m.line - 1]) - len(lines[m.line - 1].lstrip())]
        try:
            changed = lines[:m.line - 1] + [blank + m.new + "\n"] + lines[m.line:]
            open(path, "w").write("".join(changed))
            if self.ninja(*sorted(self.objects[m.file])).returncode:
                return "invalid", None
            if self.object_bytes(m.file) == before:
                return "same", None
            if self.ninja(*self.targets).returncode:
                return "invalid", None
            for name in sorted(self.tests_for(m.file), key=lambda n: (-kills[m.file, n], times[n])):
                if self.run(self.tests[name], 20 + 8 * times[name]) is not None:
                    return "killed", name
            return "survived", None
        finally:
            open(path, "w").write("".join(lines))
            self.ninja(*sorted(self.objects[m.file]))


def baseline(tree, state, files):
    """Seconds that each test takes which a change of these files could fail; all must pass."""
    saved = json.load(open(TIMES)) if os.path.exists(TIMES) else {}
    times = saved["times"] if saved.get("state") == state else {}
    for name in sorted({name for f in files for name in tree.tests_for(f)} - set(times)):
        start = time.monotonic()
        failed = tree.run(tree.tests[name], 600)
        if failed is not None:
            sys.exit("mutate: %s fails without any change: %s" % (name, failed))
        times[name] = round(time.monotonic() - start, 2)
        json.dump({"state": state, "times": times}, open(TIMES, "w"))
    return times


# ---- Report -------------------------------------------------------------------------------------

def show(r):
    print("%s:%d: survived\n    - %s\n    + %s" % (r["file"], r["line"], r["old"], r["new"]),
          flush=True)


def summary(results, places, known):
    some = [r for r in results.values() if r["file"].startswith(tuple(places))]
    count = collections.Counter(r["verdict"] for r in some)
    survivors = sorted((r for r in some if r["verdict"] == "survived"),
                       key=lambda r: (r["file"], r["line"]))
    idle = [r for r in survivors if (r["file"], r["old"], r["new"]) in known]
    survivors = [r for r in survivors if r not in idle]
    for r in survivors:
        show(r)
    total = count["killed"] + len(survivors)
    print("%d killed and %d survived (%.1f %% killed); %d survived and change nothing, %d are the "
          "same code, %d do not compile" %
          (count["killed"], len(survivors), 100.0 * count["killed"] / max(total, 1), len(idle),
           count["same"], count["invalid"]))
    return 1 if survivors else 0


# ---- Run ----------------------------------------------------------------------------------------

def arguments(words):
    args = {"count": 30, "seed": None, "again": False, "list": False, "places": [],
            "jobs": int(os.environ.get("JOBS", "1"))}
    for word in words:
        if word.isdigit():
            args["count"] = int(word)
        elif word in ("--again", "--list"):
            args[word[2:]] = True
        elif word.startswith(("--seed=", "--jobs=")):
            name, value = word[2:].split("=")
            if not value.isdigit():
                sys.exit("mutate: %s is a number" % name)
            args[name] = int(value)
        elif word.startswith("-") or not word.startswith(tuple(p.rstrip("/") for p in PLACES)):
            print(__doc__.strip(), file=sys.stderr)
            sys.exit(2)
        else:
            args["places"].append(word)
    args["places"] = args["places"] or list(PLACES)
    return args


def find_again(source, results, places, known, files):
    """Survivors whose line is still there, where it is now."""
    now = []
    for r in results.values():
        if r["verdict"] != "survived" or not r["file"].startswith(tuple(places)) or \
                (r["file"], r["old"], r["new"]) in known or r["file"] not in files:
            continue
        lines = open(os.path.join(source, r["file"])).read().splitlines()
        at = [i for i, line in enumerate(lines, 1) if line.strip() == r["old"]]
        if len(at) > r["nth"]:
            now.append(Mutant(r["file"], at[r["nth"]], r["old"], r["new"], r["nth"]))
    return now


def work(tree, todo, take, kills, times):
    while True:
        try:
            m = todo.get_nowait()
        except queue.Empty:
            return
        start = time.monotonic()
        verdict, test = tree.judge(m, kills, times)
        if take(m, verdict, test, time.monotonic() - start):
            return


def run(args, results, known):
    files = git_files()
    trees = [Tree(i + 1) for i in range(args["jobs"])]
    for tree in trees:
        state = tree.sync(files)
        tree.prepare()
    kills = collections.Counter((r["file"], r["test"]) for r in results.values()
                                if r["verdict"] == "killed")
    objects = trees[0].objects
    mine = [f for f in files if f.startswith(tuple(args["places"])) and
            f.endswith((".c", ".h")) and f.startswith(PLACES) and
            not any(e in f for e in EXCEPT) and 0 < len(objects[f]) <= OBJECTS_MOST]
    times = baseline(trees[0], state, mine)
    left = [args["count"]]
    if args["again"]:
        some = find_again(trees[0].source, results, args["places"], known, files)
        left[0] = len(some)
    else:
        seed = args["seed"] if args["seed"] is not None else random.SystemRandom().randrange(10**6)
        some = draw(trees[0].source, mine, seed)
        print("seed %d: %d lines of %d files can be changed" % (seed, len(some), len(mine)),
              flush=True)
    todo, lock, end = queue.Queue(), threading.Lock(), threading.Event()
    for m in some:
        verdict = results.get(key_of(m), {}).get("verdict")
        if verdict and not args["again"]:
            left[0] -= verdict in ("killed", "survived")
        elif (m.file, m.old, m.new) not in known:
            todo.put(m)
        if left[0] <= 0:
            break

    def take(m, verdict, test, seconds):
        with lock:
            r = dict(m._asdict(), verdict=verdict, test=test, seconds=round(seconds, 1))
            results[key_of(m)] = r
            with open(RESULTS, "a") as out:
                out.write(json.dumps(r) + "\n")
            if verdict == "killed":
                kills[m.file, test] += 1
            if verdict == "survived":
                show(r)
            left[0] -= verdict in ("killed", "survived") or args["again"]
            if left[0] <= 0:
                end.set()
            return end.is_set()

    if left[0] > 0:
        threads = [threading.Thread(target=work, args=(t, todo, take, kills, times), daemon=True)
                   for t in trees]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for tree in trees:
                tree.stop()


def main():
    args = arguments(sys.argv[1:])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.makedirs(FOLDER, exist_ok=True)
    results, known = read_results(), read_known()
    if not args["list"]:
        run(args, results, known)
    return summary(results, args["places"], known)


if __name__ == "__main__":
    sys.exit(main())
