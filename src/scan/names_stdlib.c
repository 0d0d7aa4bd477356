/* SPDX-License-Identifier: Apache-2.0 */
#include "scan/names.h"

#include <stdlib.h>
#include <string.h>

/*
 * Top-level modules of Python 2.7 to 3.14; sorted. Source: sys.stdlib_module_names, the
 * documentation of 2.7, and modules for tests and demonstrations that distributions install.
 */
/* clang-format off */
static const char *const modules[] = {
	"BaseHTTPServer", "Bastion", "CGIHTTPServer", "Canvas", "ConfigParser", "Cookie", "Dialog",
	"DocXMLRPCServer", "FileDialog", "FixTk", "HTMLParser", "MimeWriter", "Queue",
	"ScrolledText", "SimpleDialog", "SimpleHTTPServer", "SimpleXMLRPCServer", "SocketServer",
	"StringIO", "Tix", "Tkconstants", "Tkdnd", "Tkinter", "UserDict", "UserList", "UserString",
	"__builtin__", "__future__", "__hello__", "__hello_alias__", "__hello_only__", "__phello__",
	"__phello_alias__", "_abc", "_abcoll", "_aix_support", "_android_support", "_apple_support",
	"_ast", "_ast_unparse", "_asyncio", "_bisect", "_blake2", "_bootlocale", "_bootsubprocess",
	"_bz2", "_codecs", "_codecs_cn", "_codecs_hk", "_codecs_iso2022", "_codecs_jp",
	"_codecs_kr", "_codecs_tw", "_collections", "_collections_abc", "_colorize",
	"_compat_pickle", "_compression", "_contextvars", "_crypt", "_csv", "_ctypes",
	"_ctypes_test", "_curses", "_curses_panel", "_datetime", "_dbm", "_decimal",
	"_dummy_thread", "_elementtree", "_frozen_importlib", "_frozen_importlib_external",
	"_functools", "_gdbm", "_hashlib", "_heapq", "_hmac", "_imp", "_interpchannels",
	"_interpqueues", "_interpreters", "_io", "_ios_support", "_json", "_locale", "_lsprof",
	"_lzma", "_markupbase", "_md5", "_missing_stdlib_info", "_msi", "_multibytecodec",
	"_multiprocessing", "_opcode", "_opcode_metadata", "_operator", "_osx_support",
	"_overlapped", "_pickle", "_posixshmem", "_posixsubprocess", "_py_abc", "_py_warnings",
	"_pydatetime", "_pydecimal", "_pyio", "_pylong", "_pyrepl", "_queue", "_random",
	"_remote_debugging", "_scproxy", "_sha", "_sha1", "_sha2", "_sha256", "_sha3", "_sha512",
	"_signal", "_sitebuiltins", "_socket", "_sqlite3", "_sre", "_ssl", "_stat", "_statistics",
	"_string", "_strptime", "_struct", "_suggestions", "_symtable", "_sysconfig", "_testbuffer",
	"_testcapi", "_testclinic", "_testclinic_limited", "_testconsole",
	"_testexternalinspection", "_testimportmultiple", "_testinternalcapi", "_testlimitedcapi",
	"_testmultiphase", "_testsinglephase", "_thread", "_threading_local", "_tkinter",
	"_tokenize", "_tracemalloc", "_types", "_typing", "_uuid", "_warnings", "_weakref",
	"_weakrefset", "_winapi", "_winreg", "_wmi", "_xxinterpchannels", "_xxinterpqueues",
	"_xxsubinterpreters", "_xxtestfuzz", "_zoneinfo", "_zstd", "abc", "aifc", "annotationlib",
	"antigravity", "anydbm", "argparse", "array", "ast", "asynchat", "asyncio", "asyncore",
	"atexit", "audioop", "base64", "bdb", "binascii", "binhex", "bisect", "bsddb", "builtins",
	"bz2", "cPickle", "cProfile", "cStringIO", "calendar", "cgi", "cgitb", "chunk", "cmath",
	"cmd", "code", "codecs", "codeop", "collections", "colorsys", "commands", "compileall",
	"compiler", "compression", "concurrent", "configparser", "contextlib", "contextvars",
	"cookielib", "copy", "copy_reg", "copyreg", "crypt", "csv", "ctypes", "curses",
	"dataclasses", "datetime", "dbhash", "dbm", "decimal", "difflib", "dircache", "dis",
	"distutils", "doctest", "dumbdbm", "dummy_thread", "dummy_threading", "email", "encodings",
	"ensurepip", "enum", "errno", "exceptions", "faulthandler", "fcntl", "filecmp", "fileinput",
	"fnmatch", "formatter", "fpformat", "fractions", "ftplib", "functools", "future_builtins",
	"gc", "gdbm", "genericpath", "getopt", "getpass", "gettext", "glob", "graphlib", "grp",
	"gzip", "hashlib", "heapq", "hmac", "hotshot", "html", "htmlentitydefs", "http", "httplib",
	"idlelib", "ihooks", "imaplib", "imghdr", "imp", "importlib", "imputil", "inspect", "io",
	"ipaddress", "itertools", "json", "keyword", "lib2to3", "linecache", "locale", "logging",
	"lzma", "macpath", "mailbox", "mailcap", "markupbase", "marshal", "math", "md5", "mhlib",
	"mimetools", "mimetypes", "mimewriter", "mmap", "modulefinder", "msilib", "msvcrt",
	"multifile", "multiprocessing", "mutex", "netrc", "new", "nis", "nntplib", "nt", "ntpath",
	"nturl2path", "numbers", "opcode", "operator", "optparse", "os", "ossaudiodev", "parser",
	"pathlib", "pdb", "pickle", "pickletools", "pipes", "pkgutil", "platform", "plistlib",
	"popen2", "poplib", "posix", "posixfile", "posixpath", "pprint", "profile", "pstats", "pty",
	"pwd", "py_compile", "pyclbr", "pydoc", "pydoc_data", "pyexpat", "queue", "quopri",
	"random", "re", "readline", "repr", "reprlib", "resource", "rexec", "rfc822", "rlcompleter",
	"robotparser", "runpy", "sched", "secrets", "select", "selectors", "sets", "sha", "shelve",
	"shlex", "shutil", "signal", "site", "smtpd", "smtplib", "sndhdr", "socket", "socketserver",
	"spwd", "sqlite3", "sre_compile", "sre_constants", "sre_parse", "ssl", "stat", "statistics",
	"statvfs", "string", "stringold", "stringprep", "strop", "struct", "subprocess", "sunau",
	"sunaudio", "symbol", "symtable", "sys", "sysconfig", "syslog", "tabnanny", "tarfile",
	"telnetlib", "tempfile", "termios", "test", "textwrap", "this", "thread", "threading",
	"time", "timeit", "tkColorChooser", "tkCommonDialog", "tkFileDialog", "tkFont",
	"tkMessageBox", "tkSimpleDialog", "tkinter", "toaiff", "token", "tokenize", "tomllib",
	"trace", "traceback", "tracemalloc", "ttk", "tty", "turtle", "turtledemo", "types",
	"typing", "unicodedata", "unittest", "urllib", "urllib2", "urlparse", "user", "uu", "uuid",
	"venv", "warnings", "wave", "weakref", "webbrowser", "whichdb", "winreg", "winsound",
	"wsgiref", "xdrlib", "xml", "xmllib", "xmlrpc", "xmlrpclib", "xxlimited", "xxlimited_35",
	"xxsubtype", "zipapp", "zipfile", "zipimport", "zlib", "zoneinfo",
};
/* clang-format on */

static int compare(const void *key, const void *item)
{
	return strcmp(key, *(const char *const *)item);
}

bool ckpt_scan_is_stdlib(const char *module)
{
	char top[64];
	size_t len = strcspn(module, ".");

	if (len >= sizeof(top))
		return false;
	memcpy(top, module, len);
	top[len] = '\0';
	return bsearch(top, modules, sizeof(modules) / sizeof(modules[0]), sizeof(modules[0]),
		       compare);
}

bool ckpt_scan_is_of_library(const char *module)
{
	return ckpt_scan_is_stdlib(module) || !strcmp(module, "numpy") || !strncmp(module, "numpy.", strlen("numpy."));
}
