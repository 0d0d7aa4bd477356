/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which name of Python 2 a class or function of Python 3 has, for protocols before 3. Source: the
 * tables of CPython's _compat_pickle, the same from 3.8 on but for details.
 *
 * What must stay true: as in CPython, a pair of module and name goes before the module alone.
 */
#include "pickle/names.h"

#include <stddef.h>
#include <string.h>

static const struct {
	const char *module, *name, *old_module, *old_name;
} pairs[] = {
	{ "_functools", "reduce", "__builtin__", "reduce" },
	{ "_socket", "socket", "socket", "_socketobject" },
	{ "builtins", "ArithmeticError", "exceptions", "ArithmeticError" },
	{ "builtins", "AssertionError", "exceptions", "AssertionError" },
	{ "builtins", "AttributeError", "exceptions", "AttributeError" },
	{ "builtins", "BaseException", "exceptions", "BaseException" },
	{ "builtins", "BrokenPipeError", "exceptions", "OSError" },
	{ "builtins", "BufferError", "exceptions", "BufferError" },
	{ "builtins", "BytesWarning", "exceptions", "BytesWarning" },
	{ "builtins", "ChildProcessError", "exceptions", "OSError" },
	{ "builtins", "ConnectionAbortedError", "exceptions", "OSError" },
	{ "builtins", "ConnectionError", "exceptions", "OSError" },
	{ "builtins", "ConnectionRefusedError", "exceptions", "OSError" },
	{ "builtins", "ConnectionResetError", "exceptions", "OSError" },
	{ "builtins", "DeprecationWarning", "exceptions", "DeprecationWarning" },
	{ "builtins", "EOFError", "exceptions", "EOFError" },
	{ "builtins", "EnvironmentError", "exceptions", "EnvironmentError" },
	{ "builtins", "Exception", "exceptions", "Exception" },
	{ "builtins", "FileExistsError", "exceptions", "OSError" },
	{ "builtins", "FileNotFoundError", "exceptions", "OSError" },
	{ "builtins", "FloatingPointError", "exceptions", "FloatingPointError" },
	{ "builtins", "FutureWarning", "exceptions", "FutureWarning" },
	{ "builtins", "GeneratorExit", "exceptions", "GeneratorExit" },
	{ "builtins", "IOError", "exceptions", "IOError" },
	{ "builtins", "ImportError", "exceptions", "ImportError" },
	{ "builtins", "ImportWarning", "exceptions", "ImportWarning" },
	{ "builtins", "IndentationError", "exceptions", "IndentationError" },
	{ "builtins", "IndexError", "exceptions", "IndexError" },
	{ "builtins", "InterruptedError", "exceptions", "OSError" },
	{ "builtins", "IsADirectoryError", "exceptions", "OSError" },
	{ "builtins", "KeyError", "exceptions", "KeyError" },
	{ "builtins", "KeyboardInterrupt", "exceptions", "KeyboardInterrupt" },
	{ "builtins", "LookupError", "exceptions", "LookupError" },
	{ "builtins", "MemoryError", "exceptions", "MemoryError" },
	{ "builtins", "ModuleNotFoundError", "exceptions", "ImportError" },
	{ "builtins", "NameError", "exceptions", "NameError" },
	{ "builtins", "NotADirectoryError", "exceptions", "OSError" },
	{ "builtins", "NotImplementedError", "exceptions", "NotImplementedError" },
	{ "builtins", "OSError", "exceptions", "OSError" },
	{ "builtins", "OverflowError", "exceptions", "OverflowError" },
	{ "builtins", "PendingDeprecationWarning", "exceptions", "PendingDeprecationWarning" },
	{ "builtins", "PermissionError", "exceptions", "OSError" },
	{ "builtins", "ProcessLookupError", "exceptions", "OSError" },
	{ "builtins", "ReferenceError", "exceptions", "ReferenceError" },
	{ "builtins", "RuntimeError", "exceptions", "RuntimeError" },
	{ "builtins", "RuntimeWarning", "exceptions", "RuntimeWarning" },
	{ "builtins", "StopIteration", "exceptions", "StopIteration" },
	{ "builtins", "SyntaxError", "exceptions", "SyntaxError" },
	{ "builtins", "SyntaxWarning", "exceptions", "SyntaxWarning" },
	{ "builtins", "SystemError", "exceptions", "SystemError" },
	{ "builtins", "SystemExit", "exceptions", "SystemExit" },
	{ "builtins", "TabError", "exceptions", "TabError" },
	{ "builtins", "TimeoutError", "exceptions", "OSError" },
	{ "builtins", "TypeError", "exceptions", "TypeError" },
	{ "builtins", "UnboundLocalError", "exceptions", "UnboundLocalError" },
	{ "builtins", "UnicodeDecodeError", "exceptions", "UnicodeDecodeError" },
	{ "builtins", "UnicodeEncodeError", "exceptions", "UnicodeEncodeError" },
	{ "builtins", "UnicodeError", "exceptions", "UnicodeError" },
	{ "builtins", "UnicodeTranslateError", "exceptions", "UnicodeTranslateError" },
	{ "builtins", "UnicodeWarning", "exceptions", "UnicodeWarning" },
	{ "builtins", "UserWarning", "exceptions", "UserWarning" },
	{ "builtins", "ValueError", "exceptions", "ValueError" },
	{ "builtins", "Warning", "exceptions", "Warning" },
	{ "builtins", "ZeroDivisionError", "exceptions", "ZeroDivisionError" },
	{ "builtins", "chr", "__builtin__", "unichr" },
	{ "builtins", "filter", "itertools", "ifilter" },
	{ "builtins", "int", "__builtin__", "long" },
	{ "builtins", "map", "itertools", "imap" },
	{ "builtins", "range", "__builtin__", "xrange" },
	{ "builtins", "str", "__builtin__", "unicode" },
	{ "builtins", "zip", "itertools", "izip" },
	{ "collections", "UserDict", "UserDict", "IterableUserDict" },
	{ "collections", "UserList", "UserList", "UserList" },
	{ "collections", "UserString", "UserString", "UserString" },
	{ "dbm", "whichdb", "whichdb", "whichdb" },
	{ "functools", "reduce", "__builtin__", "reduce" },
	{ "http.server", "CGIHTTPRequestHandler", "CGIHTTPServer", "CGIHTTPRequestHandler" },
	{ "http.server", "SimpleHTTPRequestHandler", "SimpleHTTPServer", "SimpleHTTPRequestHandler" },
	{ "itertools", "filterfalse", "itertools", "ifilterfalse" },
	{ "itertools", "zip_longest", "itertools", "izip_longest" },
	{ "multiprocessing.connection", "Connection", "_multiprocessing", "Connection" },
	{ "multiprocessing.context", "AuthenticationError", "multiprocessing", "AuthenticationError" },
	{ "multiprocessing.context", "BufferTooShort", "multiprocessing", "BufferTooShort" },
	{ "multiprocessing.context", "Process", "multiprocessing.process", "Process" },
	{ "multiprocessing.context", "ProcessError", "multiprocessing", "ProcessError" },
	{ "multiprocessing.context", "TimeoutError", "multiprocessing", "TimeoutError" },
	{ "multiprocessing.popen_fork", "Popen", "multiprocessing.forking", "Popen" },
	{ "socket", "fromfd", "_socket", "fromfd" },
	{ "sys", "intern", "__builtin__", "intern" },
	{ "tkinter.filedialog", "FileDialog", "FileDialog", "FileDialog" },
	{ "tkinter.filedialog", "LoadFileDialog", "FileDialog", "LoadFileDialog" },
	{ "tkinter.filedialog", "SaveFileDialog", "FileDialog", "SaveFileDialog" },
	{ "tkinter.simpledialog", "SimpleDialog", "SimpleDialog", "SimpleDialog" },
	{ "urllib.error", "ContentTooShortError", "urllib", "ContentTooShortError" },
	{ "urllib.error", "HTTPError", "urllib2", "HTTPError" },
	{ "urllib.error", "URLError", "urllib2", "URLError" },
	{ "urllib.parse", "quote", "urllib", "quote" },
	{ "urllib.parse", "quote_plus", "urllib", "quote_plus" },
	{ "urllib.parse", "unquote", "urllib", "unquote" },
	{ "urllib.parse", "unquote_plus", "urllib", "unquote_plus" },
	{ "urllib.parse", "urlencode", "urllib", "urlencode" },
	{ "urllib.request", "getproxies", "urllib", "getproxies" },
	{ "urllib.request", "pathname2url", "urllib", "pathname2url" },
	{ "urllib.request", "url2pathname", "urllib", "url2pathname" },
	{ "urllib.request", "urlcleanup", "urllib", "urlcleanup" },
	{ "urllib.request", "urlopen", "urllib", "urlopen" },
	{ "urllib.request", "urlretrieve", "urllib", "urlretrieve" },
	{ "xmlrpc.server", "DocCGIXMLRPCRequestHandler", "DocXMLRPCServer", "DocCGIXMLRPCRequestHandler" },
	{ "xmlrpc.server", "DocXMLRPCRequestHandler", "DocXMLRPCServer", "DocXMLRPCRequestHandler" },
	{ "xmlrpc.server", "DocXMLRPCServer", "DocXMLRPCServer", "DocXMLRPCServer" },
	{ "xmlrpc.server", "ServerHTMLDoc", "DocXMLRPCServer", "ServerHTMLDoc" },
	{ "xmlrpc.server", "XMLRPCDocGenerator", "DocXMLRPCServer", "XMLRPCDocGenerator" },
};

static const struct {
	const char *module, *old_module;
} modules[] = {
	{ "_bz2", "bz2" },
	{ "_dbm", "dbm" },
	{ "_dummy_thread", "dummy_thread" },
	{ "_functools", "functools" },
	{ "_gdbm", "gdbm" },
	{ "_markupbase", "markupbase" },
	{ "_pickle", "pickle" },
	{ "_thread", "thread" },
	{ "builtins", "__builtin__" },
	{ "collections.abc", "_abcoll" },
	{ "configparser", "ConfigParser" },
	{ "copyreg", "copy_reg" },
	{ "dbm", "anydbm" },
	{ "dbm.bsd", "dbhash" },
	{ "dbm.dumb", "dumbdbm" },
	{ "dbm.gnu", "gdbm" },
	{ "dbm.ndbm", "dbm" },
	{ "html.entities", "htmlentitydefs" },
	{ "html.parser", "HTMLParser" },
	{ "http.client", "httplib" },
	{ "http.cookiejar", "cookielib" },
	{ "http.cookies", "Cookie" },
	{ "http.server", "BaseHTTPServer" },
	{ "queue", "Queue" },
	{ "reprlib", "repr" },
	{ "socketserver", "SocketServer" },
	{ "subprocess", "commands" },
	{ "test.support", "test.test_support" },
	{ "tkinter", "Tkinter" },
	{ "tkinter.colorchooser", "tkColorChooser" },
	{ "tkinter.commondialog", "tkCommonDialog" },
	{ "tkinter.constants", "Tkconstants" },
	{ "tkinter.dialog", "Dialog" },
	{ "tkinter.dnd", "Tkdnd" },
	{ "tkinter.filedialog", "tkFileDialog" },
	{ "tkinter.font", "tkFont" },
	{ "tkinter.messagebox", "tkMessageBox" },
	{ "tkinter.scrolledtext", "ScrolledText" },
	{ "tkinter.simpledialog", "tkSimpleDialog" },
	{ "tkinter.tix", "Tix" },
	{ "tkinter.ttk", "ttk" },
	{ "urllib.parse", "urlparse" },
	{ "urllib.request", "urllib2" },
	{ "urllib.robotparser", "robotparser" },
	{ "winreg", "_winreg" },
	{ "xmlrpc.client", "xmlrpclib" },
	{ "xmlrpc.server", "SimpleXMLRPCServer" },
};

bool ckpt_python2_name(const char *module, const char *name, const char **old_module,
		       const char **old_name)
{
	*old_module = module;
	*old_name = name;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (!strcmp(pairs[i].module, module) && !strcmp(pairs[i].name, name)) {
			*old_module = pairs[i].old_module;
			*old_name = pairs[i].old_name;
			return true;
		}
	for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
		if (!strcmp(modules[i].module, module)) {
			*old_module = modules[i].old_module;
			return true;
		}
	return false;
}
