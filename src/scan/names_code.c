/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that run code or reach the system: modules, with all that is below them, and single names
 * in modules.
 *
 * What must stay true: the list only makes a verdict worse. What is not on it is not harmless for
 * that; names.c decides what is.
 */
#include "base/ascii.h"
#include "base/text.h"
#include "scan/names.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/*
 * Modules, with all that is below them, and single names in modules: "os" is os.system and
 * os.path.join.
 */
/* clang-format off */
static const char *const code[] = {
	/* processes, files, the interpreter itself */
	"os", "posix", "nt", "ntpath", "posixpath", "genericpath", "subprocess", "_posixsubprocess",
	"_winapi", "_overlapped", "popen2", "commands",
	 "sys", "_sitebuiltins", "runpy", "importlib", "_frozen_importlib",
	"_frozen_importlib_external", "imp", "_imp", "zipimport", "pkgutil", "pkg_resources", "site",
	"sitecustomize", "usercustomize", "sysconfig", "platform", "shutil", "tempfile", "glob",
	"fileinput", "linecache", "io", "_io", "StringIO", "cStringIO", "_pyio", "mmap", "fcntl", "resource", "pwd", "grp",
	"spwd", "syslog", "signal", "_signal", "faulthandler", "atexit", "gc", "pty", "tty", "termios",
	"curses", "_curses", "readline", "rlcompleter", "pipes", "stat", "filecmp", "zipapp",
	"zipfile", "tarfile", "gzip", "bz2", "lzma", "py_compile", "compileall", "msvcrt", "winreg",
	"_winreg", "winsound", "msilib", "_msi", "nis", "crypt", "_crypt", "getpass", "tracemalloc",
	"modulefinder", "pyclbr", "tabnanny", "codecs.open", "codecs.StreamReaderWriter",
	"argparse.FileType", "uu", "binhex", "mailcap", "mailbox", "netrc", "plistlib", "antigravity", "test.autotest",
	"this", "_osx_support", "_aix_support", "_bootsubprocess", "_posixshmem", "nturl2path", "cgi",
	"cgitb", "wsgiref", "sched", "shlex", "optparse", "getopt", "configparser", "ConfigParser",
	"mimetypes.init", "mimetypes.read_mime_types", "logging.config", "logging.handlers",
	"logging.basicConfig", "logging.FileHandler", "logging.fileConfig", "logging.os",
	"logging.sys", "logging.io", "uuid.os", "uuid.sys", "uuid.getnode", "uuid.uuid1",
	"uuid._popen", "uuid._get_command_stdout", "uuid._find_mac", "uuid._ifconfig_getter",
	"uuid._ip_getter", "uuid._arp_getter", "uuid._lanscan_getter", "uuid._netstat_getter",
	"uuid._find_mac_near_keyword", "uuid._find_mac_under_heading",
	/* code out of texts */
	"builtins.eval", "builtins.exec", "builtins.execfile", "builtins.compile", "builtins.open",
	"builtins.file", "builtins.input", "builtins.raw_input", "builtins.__import__",
	"builtins.getattr", "builtins.setattr", "builtins.delattr", "builtins.globals",
	"builtins.locals", "builtins.vars", "builtins.dir", "builtins.breakpoint", "builtins.help",
	"builtins.exit", "builtins.quit", "builtins.apply", "builtins.reload", "builtins.map",
	"builtins.filter", "builtins.reduce", "builtins.iter", "builtins.next", "builtins.super",
	"builtins.memoryview", "builtins.print", "builtins.__build_class__", "builtins.classmethod",
	"builtins.staticmethod", "builtins.property", "builtins.callable", "builtins.execute",
	"builtins.credits", "builtins.license", "builtins.copyright", "__builtins__", "code", "codeop",
	"marshal", "types.FunctionType", "types.LambdaType", "types.CodeType", "types.MethodType",
	"types.ModuleType", "types.new_class", "types.prepare_class", "types.resolve_bases",
	"types.coroutine", "types.BuiltinFunctionType", "types.GeneratorType", "types.CellType",
	"types.DynamicClassAttribute", "types.GenericAlias", "new", "timeit", "trace", "pdb", "bdb",
	"profile", "cProfile", "pstats", "hotshot", "_lsprof", "doctest", "unittest", "test.support",
	"test.libregrtest", "pydoc", "pydoc_data", "_pyrepl", "idlelib", "lib2to3", "turtle",
	"turtledemo", "tkinter", "Tkinter", "tkFileDialog", "tkSimpleDialog", "tkMessageBox", "FileDialog",
	"SimpleDialog", "ScrolledText", "Tix", "ttk", "_tkinter", "cmd", "inspect", "ast", "symtable",
	"_symtable", "dis", "gettext", "dataclasses.make_dataclass", "dataclasses._create_fn", "dataclasses._FuncBuilder", "annotationlib", "encodings.search_function",
	"_py_warnings._getcategory", "warnings._getcategory", "typing._eval_type", "typing.evaluate_forward_ref",
	"numpy.core.function_base.add_newdoc", "numpy._core.function_base.add_newdoc",
	"numpy.core._ufunc_reconstruct", "numpy._core._ufunc_reconstruct",
	"collections.namedtuple", "collections._sys", "collections._eq", "typing.get_type_hints",
	"typing.ForwardRef", "typing.NamedTuple", "enum._make_class_unpicklable", "enum.EnumMeta",
	"abc.ABCMeta", "string.Formatter", "re.Scanner", "sre_parse.template", "contextlib.ExitStack",
	"operator.attrgetter", "operator.itemgetter", "operator.methodcaller", "operator.call",
	"operator.getitem", "operator.setitem", "operator.delitem", "operator.concat", "operator.iadd",
	"_operator.attrgetter", "_operator.itemgetter", "_operator.methodcaller", "_operator.call",
	"_operator.getitem", "_operator.setitem", "_operator.delitem", "functools.reduce",
	"functools.partialmethod", "functools.wraps", "functools.update_wrapper",
	"functools.singledispatch", "functools.singledispatchmethod", "functools.cached_property",
	"functools.lru_cache", "functools.cache", "functools.cmp_to_key",
	"functools._lru_cache_wrapper", "_functools.reduce", "_functools.cmp_to_key",
	"itertools.starmap", "itertools.accumulate", "itertools.takewhile", "itertools.dropwhile",
	"itertools.filterfalse", "itertools.groupby", "itertools.imap", "itertools.ifilter",
	"itertools.ifilterfalse", "copy.copy", "copy.deepcopy", "copy._reconstruct", "copyreg.pickle",
	"copyreg.constructor", "copyreg.add_extension", "weakref.finalize", "warnings.warn_explicit",
	/* pickles in pickles, and what is stored as one */
	"pickle", "_pickle", "cPickle", "pickletools", "shelve", "dbm", "_dbm", "_gdbm", "gdbm",
	"anydbm", "dumbdbm", "whichdb", "dbhash", "bsddb", "sqlite3", "_sqlite3", "dill",
	"cloudpickle", "joblib.load", "joblib.dump", "joblib.memory", "joblib.parallel",
	"joblib.externals", "joblib.numpy_pickle.load", "joblib.numpy_pickle._unpickle",
	"joblib.numpy_pickle.NumpyUnpickler", "joblib.numpy_pickle.read_array", "joblib.pool",
	"joblib.executor", "jsonpickle", "yaml", "ruamel",
	/* networks */
	"socket", "_socket", "socketserver", "SocketServer", "ssl", "_ssl", "select", "selectors",
	"http", "httplib", "BaseHTTPServer", "SimpleHTTPServer", "CGIHTTPServer", "urllib", "urllib2",
	"ftplib", "smtplib", "smtpd", "poplib", "imaplib", "nntplib", "telnetlib", "xmlrpc",
	"xmlrpclib", "SimpleXMLRPCServer", "DocXMLRPCServer", "cookielib", "Cookie", "robotparser", "webbrowser", "asyncore", "asynchat",
	"requests", "urllib3", "httpx", "httpcore", "aiohttp", "httplib2", "pycurl", "websocket",
	"websockets", "paramiko", "fabric", "invoke", "twisted", "tornado", "flask", "werkzeug",
	"django", "boto", "boto3", "botocore", "s3fs", "gcsfs", "fsspec", "smart_open",
	"huggingface_hub", "xml", "pyexpat", "lxml",
	/* threads, processes */
	"threading", "_thread", "thread", "_dummy_thread", "dummy_threading", "multiprocessing",
	"_multiprocessing", "concurrent", "asyncio", "_asyncio", "queue.Queue", "_xxsubinterpreters",
	"_interpreters", "interpreters", "_testcapi", "_testinternalcapi", "_testmultiphase",
	"multiprocess", "billiard", "pathos", "loky", "ray", "dask", "distributed",
	/* memory, and other languages */
	"ctypes", "_ctypes", "cffi", "_cffi_backend", "numba", "llvmlite", "cupy", "pycuda", "Cython",
	"cython", "pyximport", "jnius", "jpype", "rpy2", "java", "org.python", "clr",
	/* locks: files that are made, or removed where the lock is freed */
	"filelock", "fasteners", "portalocker", "lockfile",
	/* what opens files or connections where its objects are made */
	"adlfs", "h5py.File", "h5py._hl.files.File", "lmdb", "diskcache", "tinydb", "sqlalchemy", "peewee", "zarr", "netCDF4", "tables", "pymongo", "redis",
	/* installers, shells, consoles, media */
	"pip", "_pip", "ensurepip", "venv", "virtualenv", "distutils", "setuptools", "_distutils_hack",
	"wheel", "easy_install", "IPython", "ipykernel", "jupyter", "jupyter_client", "jupyter_core",
	"notebook", "nbconvert", "pexpect", "ptyprocess", "sh", "plumbum", "psutil", "pyautogui",
	"pynput", "py", "pytest", "_pytest", "nose", "aifc", "wave", "sunau", "sndhdr", "imghdr",
	"chunk", "ossaudiodev", "audioop", "jinja2", "mako", "chameleon", "RestrictedPython", "sympy",
	"numexpr", "asteval", "simpleeval", "pandas.read_pickle", "pandas.eval", "pandas.io",
	"pandas.core.computation", "pandas.read_csv", "pandas.read_hdf", "pandas.DataFrame.query",
	"pandas.DataFrame.eval", "pydash", "matplotlib.sphinxext", "matplotlib.testing", "scipy.weave",
	"scipy.io", "sklearn.datasets", "tensorflow.io", "tensorflow.load_library",
	"tensorflow.load_op_library", "tensorflow.py_function", "tensorflow.numpy_function",
	"tensorflow.saved_model", "tensorflow.python", "tensorflow.compat", "keras.models",
	"keras.saving", "keras.utils", "keras.src.saving", "keras.layers.Lambda",
	"keras.layers.core.Lambda", "keras.src.layers.core.lambda_layer", "onnx", "onnxruntime",
	"mlflow",
	/* functions of packages that run, import or open what a text names */
	"six.exec_", "six.moves", "six.reraise", "hydra.utils", "hydra._internal", "traitlets.import_item", "traitlets.utils.importstring", "srsly.pickle_loads", "srsly.cloudpickle",
	"PIL.ImageMath", "docutils.core", "pygments.lexers", "pygments.formatters", "click.launch", "click.open_file", "nltk.data", "networkx.read_gpickle", "networkx.readwrite",
	"hypothesis.internal.reflection", "attr._make._compile_and_eval", "monai.utils.optional_import", "monai.utils.module", "pydoc.locate",
	/* numpy */
	"numpy.testing", "numpy.f2py", "numpy.distutils", "numpy.ctypeslib", "numpy.lib", "numpy.load",
	"numpy.save", "numpy.savez", "numpy.savetxt", "numpy.loadtxt", "numpy.genfromtxt",
	"numpy.fromfile", "numpy.fromregex", "numpy.fromfunction", "numpy.frompyfunc",
	"numpy.vectorize", "numpy.apply_along_axis", "numpy.apply_over_axes", "numpy.piecewise",
	"numpy.DataSource", "numpy.get_include", "numpy.show_config", "numpy.compat",
	"numpy.core.records.fromfile", "numpy.rec.fromfile", "numpy._pytesttester", "numpy.os",
	"numpy.sys",
	/* torch */
	"torch.load", "torch.save", "torch.compile", "torch.hub", "torch.jit", "torch.ops",
	"torch._ops", "torch.classes", "torch._classes", "torch.package", "torch.multiprocessing",
	"torch.fx", "torch.onnx", "torch._export", "torch.export", "torch.compiler", "torch._dynamo",
	"torch._inductor", "torch._functorch", "torch._higher_order_ops", "torch._library",
	"torch.library", "torch._logging", "torch._lobpcg", "torch.serialization",
	"torch.utils.bottleneck", "torch.utils.collect_env", "torch.utils.cpp_extension",
	"torch.utils._cpp_extension_versioner", "torch.utils.file_baton", "torch.utils.hipify",
	"torch.utils.model_zoo", "torch.utils.show_pickle", "torch.utils.model_dump",
	"torch.utils.bundled_inputs", "torch.utils.mobile_optimizer", "torch.utils.benchmark",
	"torch.utils.tensorboard", "torch.utils.data", "torch.utils._config_module",
	"torch.utils._freeze", "torch.utils._content_store", "torch.utils._import_utils",
	"torch.utils._zip", "torch.utils.throughput_benchmark", "torch.utils._triton",
	"torch.utils._strobelight", "torch.utils.backend_registration",
	"torch.utils._pytree.treespec_loads", "torch.utils._pytree.tree_map", "torch.distributed.run",
	"torch.distributed.launch", "torch.distributed.launcher", "torch.distributed.elastic",
	"torch.distributed.rpc", "torch.distributed.argparse_util",
	"torch.distributed.checkpoint.format_utils", "torch.distributed.checkpoint.filesystem",
	"torch.distributed.benchmarks", "torch.distributed.TCPStore", "torch.distributed.FileStore",
	"torch.distributed.HashStore", "torch.distributed.rendezvous",
	"torch.distributed.distributed_c10d._tensor_to_object",
	"torch.distributed.distributed_c10d._pickler", "torch.distributed.distributed_c10d._unpickler",
	"torch.distributed.nn.jit", "torch.testing", "torch._numpy", "torch.profiler", "torch.autograd.profiler",
	"torch.contrib", "torch.cuda.profiler", "torch.cuda._nvrtc", "torch.cuda.memory._record",
	"torch.cuda._memory_viz", "torch.backends.xeon", "torch._appdirs", "torch._sources",
	"torch._weights_only_unpickler", "torch._vendor", "torch._guards", "torch._deploy",
	"torch._lazy", "torch._compile", "torch._precompile", "torch._native", "torch._strobelight",
	"torch.cuda.memory.CUDAPluggableAllocator", "torch.xpu.memory.XPUPluggableAllocator", "torch.cuda._utils",
	"torch.nn.attention._fa3", "torch.nn.attention._fa4", "torch.nn.attention._registry",
	"torch.nn.utils._deprecation_utils", "torch.utils._pytree._defaultdict_deserialize",
	"torch.utils._pytree.enum_object_hook", "torch.utils._traceback", "torch.utils._get_clean_triton",
	"torch.distributed.flight_recorder", "torch.distributed.checkpoint.state_dict_loader",
	"torch.distributed.checkpoint.state_dict_saver", "torch.distributed.checkpoint._pg_transport",
	"torch.distributed.checkpoint.default_planner", "torch.distributed._shard.checkpoint", "torch._utils_internal", "torch._utils._import_dotted_name",
	"torch._tensor_str", "torch._C._load_for_lite_interpreter", "torch._C.import_ir_module",
	"torch._C._import_ir_module_from_package", "torch._C._jit", "torch._C._parse_source_def",
	"torch._C.CompilationUnit", "torch._C.ScriptModule", "torch._C.PyTorchFileReader",
	"torch._C.PyTorchFileWriter", "torch._C._dynamo", "torch._C._functions", "torch.from_file",
	"torch.FloatStorage.from_file", "torch.set_default_dtype", "torch.classes.load_library",
	"torch.FloatStorage._new_shared", "torch.UntypedStorage.from_file",
	"torch.storage.UntypedStorage.from_file", "torch.storage._StorageBase", "torchvision.io",
	/* what calls a method that a text names, of the library's own */
	"enum.property", "types.DynamicClassAttribute", "functools.cached_property", "numpy.ma.core._frommethod", "numpy.ma.core._arraymethod", "numpy.ma.core._convert2ma", "numpy.ma.extras._fromnxfunction",
	/* objects of C++ in TorchScript: one loads a pickle out of its state, others are connections and devices */
	"__torch__.torch.classes.aten", "__torch__.torch.classes.c10d", "__torch__.torch.classes.cuda", "__torch__.torch.classes.dist_rpc", "__torch__.torch.classes.profiler",
	"torchvision.datasets", "torchaudio.io", "torch._sys", "torch._os",
};
/* clang-format on */

/* Modules that others import, and that are reached through them: torch.os is os. */
/* clang-format off */
static const char *const reached[] = {
	"os", "sys", "subprocess", "shutil", "importlib", "builtins", "__builtins__", "socket",
	"ctypes", "pickle", "_pickle", "cPickle", "runpy", "io", "tempfile", "marshal", "inspect",
	"types", "code", "pty", "threading", "multiprocessing", "signal", "platform", "webbrowser",
	"functools", "operator", "itertools", "linecache", "glob", "zipfile", "tarfile", "urllib",
	"http", "requests", "pkgutil", "gc", "atexit", "pdb", "cProfile", "timeit", "dill",
	"cloudpickle", "copyreg", "codecs", "warnings", "traceback", "weakref", "contextlib",
	"logging", "copy", "_pickle_module", "pickle_module",
};
/* clang-format on */

/* Classes of torch that are made of code, wherever in torch they are imported. */
static const char *const made_of_code[] = {
	"GraphModule",	  "Graph",	     "ScriptModule",	"RecursiveScriptModule",
	"ScriptFunction", "PackageImporter", "PackageExporter", "CompilationUnit",
	"DataLoader",	  "FileBaton",	     "TCPStore",	"FileStore"
};

static bool is_made_of_code(const char *module, const char *name)
{
	const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;
	size_t len = strlen(last);

	if (strncmp(module, "torch", 5) != 0 || (module[5] && module[5] != '.'))
		return false;
	if (len > 11 && !strcmp(last + len - 11, "GraphModule"))
		return true;
	for (size_t i = 0; i < sizeof(made_of_code) / sizeof(made_of_code[0]); i++)
		if (!strcmp(last, made_of_code[i]))
			return true;
	return false;
}

/*
 * This is asked of every name and attribute in a pickle, with a thousand modules: they are sorted once,
 * and looked up by each beginning of a path that ends at a dot. Some systems find a module whatever its case.
 */
enum { CODE = sizeof(code) / sizeof(code[0]), REACHED = sizeof(reached) / sizeof(reached[0]) };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *sorted_code[CODE], *sorted_reached[REACHED];
static unsigned most_parts; /* of an item of code */

/* A name, of which LEN bytes count. */
struct beginning {
	const char *text;
	size_t len;
};

static int compare_beginning(const struct beginning *b, const char *name, bool is_exact)
{
	for (size_t i = 0; i < b->len; i++) {
		int x = (unsigned char)b->text[i], y = (unsigned char)name[i];

		if (!is_exact)
			x = ckpt_to_lower(x), y = ckpt_to_lower(y);
		if (x != y || !y)
			return x - y;
	}
	return name[b->len] ? -1 : 0;
}

static int compare_code(const void *key, const void *item)
{
	return compare_beginning(key, *(const char *const *)item, false);
}

static int compare_reached(const void *key, const void *item)
{
	return compare_beginning(key, *(const char *const *)item, true);
}

static int order_code(const void *a, const void *b)
{
	const char *text = *(const char *const *)a;

	return compare_code(&(struct beginning){ text, strlen(text) }, b);
}

static int order_reached(const void *a, const void *b)
{
	const char *text = *(const char *const *)a;

	return compare_reached(&(struct beginning){ text, strlen(text) }, b);
}

static void sort_names(void)
{
	memcpy(sorted_code, code, sizeof(code));
	memcpy(sorted_reached, reached, sizeof(reached));
	qsort(sorted_code, CODE, sizeof(*sorted_code), order_code);
	qsort(sorted_reached, REACHED, sizeof(*sorted_reached), order_reached);
	for (size_t i = 0; i < CODE; i++) {
		unsigned parts = 1;

		for (const char *at = code[i]; *at; at++)
			parts += *at == '.';
		most_parts = parts > most_parts ? parts : most_parts;
	}
}

static bool is_below_code(const char *path)
{
	struct beginning b = { path, 0 };

	for (unsigned parts = 0; parts < most_parts; parts++, b.len++) {
		b.len += strcspn(path + b.len, ".");
		if (bsearch(&b, sorted_code, CODE, sizeof(*sorted_code), compare_code))
			return true;
		if (!path[b.len])
			return false;
	}
	return false;
}

/*
 * Classes and functions of Python's library under the name of a package that has them, too:
 * gevent.subprocess.Popen, hypothesis.errors.io.FileIO. Of modules only those whose names no
 * package has for something else.
 */
static bool is_of_library(const char *module, const char *name)
{
	static const char *const modules[] = { "subprocess", "socketserver", "ctypes", "importlib", "runpy", "moves", "backports", "builtins", "__builtin__", "__builtins__", "posix", "pickle" };
	static const char *const names[] = { "Popen", "FileIO", "TextIOWrapper", "BufferedReader", "BufferedWriter", "BufferedRandom", "TCPServer", "UDPServer", "UnixStreamServer",
					     "UnixDatagramServer", "ThreadingTCPServer", "ThreadingUDPServer", "ForkingTCPServer", "HTTPServer", "ThreadingHTTPServer", "CodeType",
					     "FunctionType", "LambdaType", "MethodType", "ModuleType", "Unpickler", "Pickler", "ZipFile", "PyZipFile", "TarFile", "ExitStack", "AsyncExitStack",
					     "CDLL", "PyDLL", /* and what keeps a function, to call it */ "partial", "partialmethod", "singledispatchmethod", "methodcaller", "attrgetter", "itemgetter", "starmap", "takewhile", "dropwhile",
					     "filterfalse", "map", "filter", /* writes into the dict that it is given */ "ChainMap", "Shelf", /* ... or imports what it is asked for */ "MovedAttribute", "MovedModule", "ElementTree", "RefactoringTool", "TemporaryDirectory", "SpooledTemporaryFile", "InteractiveInterpreter", "InteractiveConsole" };
	const char *dot = strrchr(name, '.'), *last = dot ? dot + 1 : name;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (*last == *names[i] && !strcmp(last, names[i]))
			return true;
	if (ckpt_ends_with(module, ".__main__")) /* a program, which runs where it is imported */
		return true;
	for (const char *part = module; *part; part += strcspn(part, "."), part += *part == '.')
		for (size_t i = 0; i < sizeof(modules) / sizeof(modules[0]); i++)
			if (*part == *modules[i] && strcspn(part, ".") == strlen(modules[i]) && !strncmp(part, modules[i], strlen(modules[i])))
				return true;
	return false;
}

bool ckpt_scan_runs_code(const char *module, const char *name)
{
	char path[512];
	size_t first = strlen(module), second = strlen(name);

	if (first + second + 2 > sizeof(path))
		return false;
	memcpy(path, module, first);
	path[first] = '.';
	memcpy(path + first + 1, name, second + 1);
	pthread_once(&once, sort_names);
	if (is_below_code(path) ||
	    bsearch(&(struct beginning){ name, strcspn(name, ".") }, sorted_reached, REACHED, sizeof(*sorted_reached), compare_reached))
		return true;
	return is_made_of_code(module, name) || is_of_library(module, name);
}
