# SPDX-License-Identifier: Apache-2.0
"""The library lives in programs of others. What it calls leaves them alone, and it shows nothing but its headers.

manners.py calls SOURCE LIBRARY.a MODULE.so...
manners.py exports SOURCE LIBRARY.so
manners.py structs SOURCE                     every public struct is in src/abi.c, and every flag and sized struct in a test
"""

import os
import re
import subprocess
import sys

# What nobody may call but the files named behind it, and why.
UNWANTED = {
    "changes the environment, which other threads read": "setenv unsetenv putenv clearenv",
    "reads the environment, which the headers say of broadcasts and GPUs alone": "getenv secure_getenv environ __environ",
    "changes what all threads share": """umask chdir fchdir chroot setrlimit prlimit nice setpriority setuid setgid seteuid setegid
        setreuid setregid setresuid setresgid setgroups prctl personality setsid setpgid daemon mlockall munlockall mallopt
        sched_setaffinity pthread_setaffinity_np sched_setscheduler pthread_setschedparam unshare setns dup2 dup3 closefrom close_range
        fesetround fesetenv feenableexcept fedisableexcept pthread_setcancelstate pthread_setconcurrency
        setvbuf setbuf freopen pthread_attr_setaffinity_np""",
    "is about signals, which are the program's": """signal __sysv_signal bsd_signal sigaction sigprocmask pthread_sigmask sigaltstack
        siginterrupt sigset sighold sigrelse sigignore sigsuspend sigwait sigwaitinfo sigtimedwait signalfd pthread_kill pthread_sigqueue
        raise kill tgkill alarm ualarm setitimer timer_create""",
    "ends the program, or is called when it ends": "exit _exit _Exit quick_exit at_quick_exit abort atexit on_exit pthread_atfork "
                                                   "pthread_exit pthread_cancel longjmp _longjmp siglongjmp",
    "writes where the program does": """stdout stderr stdin printf vprintf puts putchar putchar_unlocked perror psignal psiginfo syslog
        vsyslog openlog closelog error error_at_line err errx warn warnx verr verrx vwarn vwarnx write writev dprintf vdprintf
        getchar gets scanf vscanf""",
    "starts programs": """fork vfork _Fork clone system popen pclose execl execle execlp execv execve execvp execvpe fexecve posix_spawn
        posix_spawnp wait waitpid wait3 wait4 waitid""",
    "uses the program's random numbers": "srand srandom srand48 seed48 lcong48 rand random drand48 lrand48 mrand48 initstate setstate",
    "has one result for all threads": """strtok getpwnam getpwuid getpwent getgrnam getgrgid gethostbyname gethostbyaddr inet_ntoa ctime
        asctime gmtime localtime getopt getopt_long getlogin ttyname tmpnam tempnam mktemp strsignal ecvt fcvt gcvt l64a crypt ptsname
        hcreate hsearch strerror""",
    "names a file that somebody else may have": "mktemp tmpnam tempnam tmpfile",
    "goes by the time zone, or sets it": "tzset localtime localtime_r mktime timelocal ctime ctime_r",
    "goes by the locale": """setlocale localeconv newlocale uselocale duplocale nl_langinfo strtod strtof strtold atof strfromd
        strcasecmp strncasecmp strcasestr fnmatch strcoll strxfrm strftime strptime strerror dlerror strfmon regcomp wordexp
        __ctype_b_loc __ctype_tolower_loc __ctype_toupper_loc __ctype_get_mb_cur_max isalnum isalpha isblank iscntrl isdigit isgraph
        islower isprint ispunct isspace isupper isxdigit tolower toupper mblen mbtowc wctomb mbstowcs wcstombs mbrlen mbrtowc wcrtomb
        mbsrtowcs wcsrtombs mbsnrtowcs btowc wctob iswprint iswalpha towlower towupper wcwidth wcswidth iconv_open versionsort""",
}
ALLOWED = {
    "c_locale.c": "newlocale uselocale fnmatch strerror dlerror",  # the C locale, for one call
    "double.c": "strtod",                                          # ... in it
    "fault.c": "pthread_sigmask",                                  # the library's threads take no signals; given back
    "transport_ucx.c": "sigaction",                                # given back what UCX takes while it is loaded
    "spool.c": "write",                                            # to a descriptor that the program gave for it
    "ring.c": "prctl",                                             # how much longer the calling thread sleeps than it wants; given back
    "watchdog.c": "stderr _exit",                                  # CKPT_BROADCAST_MAY_EXIT
    # what a broadcast finds launchers, drivers and plug-ins by
    "plugin.c": "getenv", "open_transport.c": "getenv", "destination.c": "getenv", "rendezvous_pmix.c": "getenv",
    "cuda.c": "getenv", "cuda_driver.c": "getenv", "nccl_library.c": "getenv",
    "ckpt-ucx.so": "getenv sigaction raise longjmp",               # abort_guard.c: what UCX ends by abort(), in a guarded call alone
}
# A number with a point: in double.c, and in disk_space.c in the C locale.
POINT = re.compile(r'%[-+ #0-9.*]*[lL]?[aAeEfFgG]')
# what the command prints by the functions of the C library, or by its own that go on to them
PRINTED = re.compile(r'\b(?:printf|fprintf|snprintf|asprintf|complain|hint|wrong_usage)\s*\((?:[^"();]|\([^()]*\))*((?:"(?:[^"\\]|\\.)*"\s*)+)')
NO_POINT = re.compile(r'%[-+ 0-9]*[.]0f')
# ... and jansson, which reads and writes it by the locale
JANSSON = re.compile(r'\bjson_(?:load|dump)\w*\(')
WITH_LOCALE = {"src/base/json.h"}
WITH_POINT = {"src/base/double.c", "src/broadcast/disk_space.c"}


def run(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout.decode().splitlines()


def plain(symbol):
    """The function that was called in the source: __printf_chk is printf, and all that jump are longjmp."""
    symbol = re.sub("^(_|sig)longjmp$", "longjmp", symbol.split("@")[0])
    found = re.fullmatch(r"__(\w+)_chk|__isoc\d\d_(\w+)|__xpg_(\w+)|__(sysv_signal)", symbol)
    if found:
        symbol = next(group for group in found.groups() if group)
    return symbol[:-2] if re.fullmatch(r"[a-z_]+[a-z]64", symbol) else symbol


def imports(library):
    """(file, function) of everything that the library, an archive or a module, wants from elsewhere."""
    member = os.path.basename(library)
    for line in run("nm", "-u", library):
        if line.endswith(":"):
            member = re.sub(r"(\.c)?\.o$", ".c", line[:-1])
        elif line.strip():
            yield member, plain(line.split()[-1])


def formats(source):
    """Places in the source where a number is printed with the locale's point."""
    for top, _, names in os.walk(os.path.join(source, "src")):
        for path in (os.path.join(top, name) for name in names if name.endswith((".c", ".h"))):
            with open(path, encoding="utf-8") as stream:
                for number, line in enumerate(stream, 1):
                    if JANSSON.search(line) and not line.lstrip().startswith(("*", "/*")) and os.path.relpath(path, source) not in WITH_LOCALE:
                        yield "%s:%d: jansson goes by the locale: base/json.h" % (os.path.relpath(path, source), number)
                    for text in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
                        text = NO_POINT.sub("", text.replace("%%", ""))
                        if POINT.search(text) and os.path.relpath(path, source) not in WITH_POINT:
                            yield "%s:%d: '%s' goes by the locale: ckpt_double_format()" % (os.path.relpath(path, source), number, text)
    for name in sorted(os.listdir(os.path.join(source, "tools"))):
        with open(os.path.join(source, "tools", name), encoding="utf-8") as stream:
            for printed in PRINTED.finditer(stream.read()):
                if POINT.search(NO_POINT.sub("", printed.group(1).replace("%%", ""))):
                    yield "tools/%s: '%s' goes by the locale: number_text()" % (name, printed.group(1))


def calls(source, *libraries):
    why = {name: reason for reason, names in UNWANTED.items() for name in names.split()}
    found, used, count = list(formats(source)), set(), 0
    for library in libraries:
        for member, name in imports(library):
            count += 1
            if name in ALLOWED.get(member, "").split():
                used.add((member, name))
            elif name in why:
                found.append("%s: %s() %s" % (member, name, why[name]))
    unused = {(member, name) for member, names in ALLOWED.items() for name in names.split()} - used
    found += ["%s: %s() is allowed here, and not called" % one for one in sorted(unused)]
    print("\n".join(found + ["%d imports" % count]))
    return 1 if found or count < 1000 else 0


def exports(source, library):
    declared = set()
    folder = os.path.join(source, "include", "ckpt")
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="utf-8") as stream:
            declared.update(re.findall(r"^CKPT_API\s[^;(]*?\b(\w+)\(", stream.read(), re.M))
    shown = {line.split()[-1] for line in run("nm", "-D", "--defined-only", library)} - {"CKPT_0"}
    wanted = {name + "@@CKPT_0" for name in declared}
    found = ["%s is in no header" % name for name in sorted(shown - wanted)]
    found += ["%s is in a header, and not in the library" % name for name in sorted(wanted - shown)]
    found += ["%s does not begin with ckpt_" % name for name in sorted(declared) if not name.startswith("ckpt_")]
    print("\n".join(found + ["%d functions" % len(declared)]))
    return 1 if found or len(declared) < 50 else 0


def structs(source):
    """The rules of <ckpt/ckpt.h> are held by src/abi.c and tests/unit/test_abi.c: is one of them left out?"""
    def read(*path):
        with open(os.path.join(source, *path), encoding="utf-8") as stream:
            return stream.read()

    headers = "\n".join(read("include", "ckpt", name) for name in sorted(os.listdir(os.path.join(source, "include", "ckpt"))))
    headers = re.sub(r"/\*.*?\*/", "", headers, flags=re.S)
    rules, test, found = read("src", "abi.c"), read("tests", "unit", "test_abi.c"), []
    every = re.findall(r"^struct (ckpt_\w+) \{\n(.*?)^\};", headers, re.S | re.M)
    for name, body in every:
        row = ("SIZED(%s, " if body.lstrip().startswith("size_t size") else "FIXED(%s, ") % name
        if row not in rules:
            found.append("struct %s: src/abi.c has no %s...)" % (name, row))
        if "#define %s_INIT" % name.upper() in headers and not re.search(r"\b%s\b" % name, test):
            found.append("struct %s is not tried in test_abi.c" % name)
    for name in re.findall(r"^CKPT_API [^;{]*?\b(\w+)\([^;]*\bunsigned flags\b", headers, re.M):
        if name not in test:
            found.append("%s() takes flags, and is not tried in test_abi.c" % name)
    for name, body in every:
        if "_options" in name and re.search(r"\bunsigned flags;", body) and "X(%s, " % name not in test:
            found.append("the flags of %s are not tried in test_abi.c" % name)
    print("\n".join(found + ["%d structs" % len(every)]))
    return 1 if found or len(every) < 30 else 0


sys.exit({"calls": calls, "exports": exports, "structs": structs}[sys.argv[1]](*sys.argv[2:]))
